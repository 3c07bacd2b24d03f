package view_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/rollout/store"
)

// event is a line of metrics.jsonl.
func event(step int, x string) string {
	return fmt.Sprintf(`{"kind":"step","step":%d,"a":%s,"time/step":1}`+"\n", step, x)
}

func appendTo(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// TestMetricsAreFollowed: lines that are appended, a line that is not complete yet, lines
// that a rollback removed, and a file that was cut and grew beyond its former length.
func TestMetricsAreFollowed(t *testing.T) {
	f := trainRun(t, 1)
	path := filepath.Join(f.dir, "metrics.jsonl")
	f.write(t, "metrics.jsonl", event(1, "1")+event(2, "null")+`{"kind":"validate","step":2,"time/step":9,"val/x":3}`+"\n")
	s := serveRuns(t, "", f.dir)
	ask := func(query string) (a metricsAnswer) {
		s.get(t, 200, "/api/runs/r0/metrics?"+query, &a)
		return a
	}
	a := ask("")
	require.Equal(t, []any{3, false}, []any{a.Lines, a.Reset})
	require.Len(t, a.Series["a"], 2)
	require.Nil(t, a.Series["a"][1][1], "a number that is not finite is null")
	require.Equal(t, 3.0, *a.Series["val/x"][0][1])
	require.Len(t, a.Series["time/step"], 2, "times of validations are not those of steps")

	appendTo(t, path, event(3, "3")+`{"kind":"step","st`)
	a = ask("after=3")
	require.Equal(t, 4, a.Lines)
	require.Equal(t, 3.0, *a.Series["a"][0][1])
	r := s.runs(t)
	require.Equal(t, []string{"The last line of metrics.jsonl is not complete; it is left out."}, r.Runs[0].Problems)
	require.False(t, ask("after=4").Reset)
	appendTo(t, path, `ep":4,"a":4}`+"\n")
	require.Equal(t, 4.0, *ask("after=4").Series["a"][0][1])

	generation := ask("").Generation
	testkit.Write(t, path, event(1, "1"))
	a = ask("after=5")
	require.Equal(t, []any{1, true}, []any{a.Lines, a.Reset})
	appendTo(t, path, event(2, "-2")+event(3, "-3")+event(4, "-4")+event(5, "-5")+event(6, "-6"))
	a = ask(fmt.Sprintf("after=5&generation=%d", generation))
	require.True(t, a.Reset, "the lines that the page has are not those of the file")
	require.Equal(t, -2.0, *a.Series["a"][1][1])

	// Cut and grown between two looks.
	before := ask("").Generation
	testkit.Write(t, path, event(1, "1")+strings.Repeat(event(2, "7"), 30))
	a = ask(fmt.Sprintf("after=6&generation=%d", before))
	require.Equal(t, []any{31, true}, []any{a.Lines, a.Reset})

	appendTo(t, path, "no event\n"+`{"kind":"step","step":-4}`+"\n"+`{"kind":"step","step":1e99}`+"\n[]\n")
	r = s.runs(t)
	require.Equal(t, []string{"4 lines of metrics.jsonl are not events; they are left out."}, r.Runs[0].Problems)
	require.NoError(t, os.Remove(path))
	require.Equal(t, []any{0, true}, []any{ask("after=6").Lines, ask("after=6").Reset})
}

// TestLongMetricsAreThinned: of many lines of a kind at most 2,001 are in an answer, with metrics that
// only some of them have; other kinds, and lines that are added, are complete.
func TestLongMetricsAreThinned(t *testing.T) {
	f := trainRun(t, 1)
	var text strings.Builder
	for step := 1; step <= 9_000; step++ {
		fmt.Fprintf(&text, `{"kind":"step","step":%d,"a":%d`, step, 2*step)
		if step%10 == 0 {
			text.WriteString(`,"rare":1`)
		}
		text.WriteString("}\n")
		if step%100 == 0 {
			fmt.Fprintf(&text, `{"kind":"validate","step":%d,"val/x":3}`+"\n", step)
		}
	}
	text.WriteString("no event\n")
	f.write(t, "metrics.jsonl", text.String())
	s := serveRuns(t, "", f.dir)
	var a metricsAnswer
	s.get(t, 200, "/api/runs/r0/metrics", &a)
	require.Equal(t, 9_091, a.Lines)
	points := a.Series["a"]
	require.InDelta(t, 2_000, len(points), 1)
	require.Equal(
		t, []float64{1, 2, 9_000, 18_000},
		[]float64{*points[0][0], *points[0][1], *points[len(points)-1][0], *points[len(points)-1][1]},
	)
	for i := range points[1:] {
		require.LessOrEqual(t, *points[i+1][0]-*points[i][0], 10.0, "no gap of more than two parts")
	}
	require.InDelta(t, 200, len(a.Series["rare"]), 60, "a tenth of them")
	require.Len(t, a.Series["val/x"], 90)
	appendTo(t, filepath.Join(f.dir, "metrics.jsonl"), event(9_001, "1")+event(9_002, "2"))
	s.get(t, 200, "/api/runs/r0/metrics?after=9091", &a)
	require.Len(t, a.Series["a"], 2)
	require.Contains(t, problems(t, s), "1 lines of metrics.jsonl are not events")
}

// TestNewEpisodesAppear, changed ones change, and removed ones go.
func TestNewEpisodesAppear(t *testing.T) {
	f, s := viewed(t, 1)
	total := func() int {
		l := s.episodes(t, "text=x")
		s.get(t, 200, "/api/runs/r0/episodes", &l)
		return l.Total
	}
	n := len(f.episodes[1])
	require.Equal(t, n, total())
	next := filepath.Join(f.rollouts, "step_2.parquet")
	require.NoError(t, store.Save(next, 2, f.episodes[1][:3]))
	require.Equal(t, n+3, total())
	require.NoError(t, store.Save(next, 2, f.episodes[1][:5]))
	require.Equal(t, n+5, total())
	require.NoError(t, os.Remove(next))
	require.Equal(t, n, total())
}

// TestEventsTellOfWhatIsWritten until the client leaves.
func TestEventsTellOfWhatIsWritten(t *testing.T) {
	f, s := viewed(t, 1)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/events", nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	lines := bufio.NewScanner(answer.Body)
	next := func(name string) (data struct {
		Run   string
		Lines int
	}) {
		for lines.Scan() {
			if lines.Text() == "event: "+name {
				require.True(t, lines.Scan())
				require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &data))
				return data
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return data
	}
	require.True(t, lines.Scan(), "the stream starts")
	appendTo(t, filepath.Join(f.dir, "metrics.jsonl"), event(2, "1"))
	got := next("metrics")
	require.Equal(t, "r0", got.Run)
	require.Equal(t, 2, got.Lines)
	require.NoError(t, store.Save(filepath.Join(f.rollouts, "step_2.parquet"), 2, f.episodes[1][:3]))
	require.Equal(t, "r0", next("episodes").Run)
	leave()
	for lines.Scan() { // what was sent before
	}
	require.ErrorIs(t, lines.Err(), context.Canceled)
}

// TestARunIsLiveWhileItsMetricsChange, and not after its last step.
func TestARunIsLiveWhileItsMetricsChange(t *testing.T) {
	f, s := viewed(t, 3)
	live := func() bool {
		r := s.runs(t)
		return r.Runs[0].Live
	}
	require.False(t, live())
	f.write(t, "metrics.jsonl", event(1, "1"))
	require.True(t, live())
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(f.dir, "metrics.jsonl"), old, old))
	require.False(t, live())
}
