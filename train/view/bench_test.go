package view_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/track"
)

// BenchmarkFirstList starts a server on a run with 10,000 episodes in 80 files, and asks
// for the first list; BenchmarkNextList asks again, and BenchmarkSearch for a text.
func BenchmarkFirstList(b *testing.B) {
	f := manyEpisodes(b)
	for b.Loop() {
		listOnce(b, f, "")()
	}
}

func BenchmarkNextList(b *testing.B) {
	next := listOnce(b, manyEpisodes(b), "?order=-reward")
	next()
	for b.Loop() {
		next()
	}
}

func BenchmarkSearch(b *testing.B) {
	f := manyEpisodes(b)
	for b.Loop() {
		listOnce(b, f, "?text=nowhere")()
	}
}

// BenchmarkLongMetrics starts a server on a run of 100,000 steps with 150 metrics, and asks for the
// metrics. It reports the memory that the process got for its heap, which the file is not part of.
func BenchmarkLongMetrics(b *testing.B) {
	dir := b.TempDir()
	out, err := os.Create(filepath.Join(dir, "metrics.jsonl"))
	require.NoError(b, err)
	w := bufio.NewWriter(out)
	e := track.Event{Kind: track.KindStep, Metrics: track.Metrics{}}
	for e.Step = 1; e.Step <= 100_000; e.Step++ {
		for i := range 150 {
			e.Metrics[fmt.Sprintf("group/metric_%d", i)] = float64(e.Step*(i+1)) / 7
		}
		_, err := w.Write(append(track.Line(e, nil), '\n'))
		require.NoError(b, err)
	}
	require.NoError(b, errors.Join(w.Flush(), out.Close()))
	runtime.GC()
	for b.Loop() {
		h := handlerOf(b, "", dir)
		for _, path := range []string{"/api/runs", "/api/runs/r0/metrics"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1"+path, nil))
			require.Equal(b, 200, w.Code)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapSys)/1e6, "heap-MB")
}

func manyEpisodes(b *testing.B) *trained {
	f := trainRun(b, 1)
	for step := 1; step <= 80; step++ {
		var all []*rollout.Trajectory
		for i := range 125 {
			e := *f.episodes[1][i%len(f.episodes[1])]
			e.Group, e.Index = i, step%4
			all = append(all, &e)
		}
		require.NoError(b, store.Save(filepath.Join(f.rollouts, fmt.Sprintf("step_%d.parquet", step)), step, all))
	}
	return f
}

func listOnce(b *testing.B, f *trained, query string) func() {
	h := handlerOf(b, "", f.dir)
	return func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/api/runs/r0/episodes"+query, nil))
		require.Equal(b, 200, w.Code)
	}
}
