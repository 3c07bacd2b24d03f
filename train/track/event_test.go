package track_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/train/track"
)

func TestJSONLinesAreObjectsWithSortedKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	s, err := track.NewJSONLines(path)
	require.NoError(t, err)
	require.NoError(t, s.Event(track.Event{Kind: "step", Step: 3, Total: 9,
		Metrics: track.Metrics{"b": 0.1, "a/x": -2, "c": 1e-30, "B": 1e21}}))
	require.Equal(t, `{"kind":"step","step":3,"B":1e+21,"a/x":-2,"b":0.1,"c":1e-30}`+"\n", testkit.Text(t, path),
		"a line is in the file when Event returns")
	require.NoError(t, s.Event(track.Event{Kind: "save", Step: 9}))
	require.NoError(t, s.Close())

	s, err = track.NewJSONLines(path)
	require.NoError(t, err)
	require.NoError(t, s.Event(track.Event{Kind: "step", Step: 10,
		Metrics: track.Metrics{"b": math.NaN(), "c": math.Inf(1), "d": math.Inf(-1)}}))
	require.NoError(t, s.Close())
	require.Equal(t, []string{
		`{"kind":"step","step":3,"B":1e+21,"a/x":-2,"b":0.1,"c":1e-30}`,
		`{"kind":"save","step":9}`,
		`{"kind":"step","step":10,"b":null,"c":null,"d":null}`, "",
	}, strings.Split(testkit.Text(t, path), "\n"), "a file that is there is appended to")
}

// TestJSONLinesEscapeEveryName: environments name parts of rewards, so a name may
// hold anything. Every line must be JSON and give the name back.
func TestJSONLinesEscapeEveryName(t *testing.T) {
	for _, name := range []string{`a"b`, `a\b`, "a\nb", "\x00", "\x07", "\x7f", "\u2028", "<&>", "日本", "\U0001f600", "",
		" "} {
		path := filepath.Join(t.TempDir(), "m.jsonl")
		s, err := track.NewJSONLines(path)
		require.NoError(t, err)
		require.NoError(t, s.Event(track.Event{Kind: name, Metrics: track.Metrics{"reward/" + name: 0.5}}))
		require.NoError(t, s.Close())
		raw := testkit.Read(t, path)
		require.Equal(t, 1, strings.Count(string(raw), "\n"), "%q is one line", name)
		var got map[string]any
		require.NoError(t, json.Unmarshal(raw, &got), "%s", raw)
		require.Equal(t, map[string]any{"kind": name, "step": 0.0, "reward/" + name: 0.5}, got)
	}
}

// TestJSONLinesHaveEveryFieldOnce: readers would see a metric with the name of a field instead of the field.
func TestJSONLinesHaveEveryFieldOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.jsonl")
	s, err := track.NewJSONLines(path)
	require.NoError(t, err)
	for _, name := range []string{"kind", "step"} {
		err := s.Event(track.Event{Kind: "step", Step: 3, Metrics: track.Metrics{name: 0.5}})
		require.ErrorContains(t, err, `step of step 3 has a metric called "`+name+`"`)
	}
	require.NoError(t, s.Event(track.Event{Kind: "step", Step: 3, Metrics: track.Metrics{"kinds": 1}}))
	require.NoError(t, s.Close())
	require.Equal(t, `{"kind":"step","step":3,"kinds":1}`+"\n", testkit.Text(t, path))
}

func TestJSONLinesOfSeveralGoroutinesStayWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.jsonl")
	s, err := track.NewJSONLines(path)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 20 {
				if err := s.Event(track.Event{Kind: "step", Step: 100*i + k, Metrics: track.Metrics{"a": 1, "b": 2}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, s.Close())
	raw := testkit.Text(t, path)
	seen := map[float64]bool{}
	for line := range strings.Lines(raw) {
		got := testkit.JSON[map[string]any](t, line)
		seen[got["step"].(float64)] = true
	}
	require.Len(t, seen, 160)
}

func TestJSONLinesReportWhatTheyCannotWrite(t *testing.T) {
	_, err := track.NewJSONLines(filepath.Join(t.TempDir(), "absent", "m.jsonl"))
	testkit.Error(t, err, os.ErrNotExist, "track: metrics: ")
	s, err := track.NewJSONLines(filepath.Join(t.TempDir(), "m.jsonl"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Event(track.Event{Kind: "step"}), os.ErrClosed)
	require.NoError(t, s.Close())
}

func TestAFunctionIsASink(t *testing.T) {
	broken := errors.New("broken")
	var got []track.Event
	var s track.Sink = track.SinkFunc(func(e track.Event) error { got = append(got, e); return broken })
	require.ErrorIs(t, s.Event(track.Event{Kind: "step", Step: 2}), broken)
	require.NoError(t, s.Close())
	require.Equal(t, []track.Event{{Kind: "step", Step: 2}}, got)
}
