package view_test

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/rollout"
	"vagen/rollout/store"
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
