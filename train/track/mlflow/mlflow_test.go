package mlflow_test

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/train/track"
	"vagen/train/track/mlflow"
)

// recorded gives events to a run's metrics file, then to the sink.
func recorded(t *testing.T, path string, m *mlflow.Sink, events ...track.Event) {
	t.Helper()
	file, err := track.NewJSONLines(path)
	require.NoError(t, err)
	for _, e := range events {
		require.NoError(t, file.Event(e))
		require.NoError(t, m.Event(e))
	}
	require.NoError(t, file.Close())
}

// TestMLflowHasTheWholeRun: parameters, every finite metric and the state, also when
// the server is down at first; a resumed run sends none of them twice.
func TestMLflowHasTheWholeRun(t *testing.T) {
	s := traintest.NewMLflowServer(t)
	s.Broken = "experiments/get-by-name"
	dir := t.TempDir()
	path := filepath.Join(dir, "metrics.jsonl")
	var log bytes.Buffer
	m, err := mlflow.New(mlflow.Options{Dir: dir, Metrics: path, Experiment: "run",
		Params: map[string]string{"algorithm.adv_estimator": `"gae"`}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	for step := 1; step <= 2; step++ {
		recorded(t, path, m, track.Event{Kind: "step", Step: step,
			Metrics: track.Metrics{"a": float64(step), "b: c//d": 4, "bad": math.NaN()}})
	}
	m.Ended(context.Canceled)
	require.NoError(t, m.Close())
	require.NoError(t, m.Close(), "a second Close has no effect")
	require.Equal(t, map[string]any{"name": "run", "status": "KILLED"}, s.Runs["r0"])
	require.Equal(t, map[string]float64{"r0/a/1": 1, "r0/a/2": 2, "r0/b_ c/_/d/1": 4, "r0/b_ c/_/d/2": 4}, s.Metrics)
	require.Equal(t, `"gae"`, s.Params["algorithm.adv_estimator"])
	require.Equal(t, "Bearer secret", s.Auth)
	require.Contains(t, log.String(), "MLflow does not respond")
	require.Contains(t, log.String(), "MLflow responds again")
	require.NotContains(t, log.String(), "secret")

	testkit.Write(t, path, `{"kind":"step","step":1,"a":1}
{"kind":"step","step":2,"a":2}
not an event
`)
	m, err = mlflow.New(mlflow.Options{Dir: dir, Metrics: path, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	recorded(t, path, m, track.Event{Kind: "step", Step: 3, Metrics: track.Metrics{"a": 3}})
	m.Ended(nil)
	require.NoError(t, m.Close())
	require.Len(t, s.Runs, 1, "the run continues with its id")
	require.Equal(t, "FINISHED", s.Runs["r0"]["status"])
	require.InDelta(t, 3, s.Metrics["r0/a/3"], 0)
	require.NotContains(t, strings.Join(s.Calls, ","), "twice")
	require.Contains(t, log.String(), "a line is not an event")
}

// TestMLflowGetsEveryMetricOfALongOutage in requests that the server accepts.
func TestMLflowGetsEveryMetricOfALongOutage(t *testing.T) {
	s := traintest.NewMLflowServer(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "metrics.jsonl")
	wide := track.Metrics{}
	for i := range 400 {
		wide[strconv.Itoa(i)] = float64(i)
	}
	s.Mu.Lock() // the server does not answer until all events are recorded
	m, err := mlflow.New(mlflow.Options{Dir: dir, Metrics: path})
	require.NoError(t, err)
	for step := 1; step <= 10; step++ {
		recorded(t, path, m, track.Event{Kind: "step", Step: step, Metrics: wide})
	}
	s.Broken, s.Status = "runs/log-batch", 401 // a token that is renewed
	s.Mu.Unlock()
	require.NoError(t, m.Close())
	require.Len(t, s.Metrics, 400*10)
	calls := strings.Join(s.Calls, ",")
	require.Equal(t, 5+1, strings.Count(calls, "log-batch"), "two events of 400 metrics in a request of at most 1,000")
	require.NotContains(t, calls, "twice")
}

// TestMLflowGetsNewValuesAfterAResume that computes other steps than those on the server, and after the next one.
func TestMLflowGetsNewValuesAfterAResume(t *testing.T) {
	s := traintest.NewMLflowServer(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "metrics.jsonl")
	for i, x := range []struct {
		redo bool
		sent map[string]float64
	}{
		{false, map[string]float64{"r0/a/2": 0, "r0/a/3": 0, "r0/a/5": 0}}, // a new run
		{false, map[string]float64{"r0/a/5": 1}},
		{true, map[string]float64{"r0/a/3": 2, "r0/a/5": 2}},
		{false, map[string]float64{"r0/a/3": 3, "r0/a/5": 3}},
	} {
		s.Latest, s.Metrics = 4, map[string]float64{}
		testkit.Write(t, path, "")
		m, err := mlflow.New(mlflow.Options{Dir: dir, Metrics: path, Done: 2, Redo: x.redo})
		require.NoError(t, err)
		for _, step := range []int{2, 3, 5} {
			recorded(t, path, m, track.Event{Kind: "step", Step: step, Metrics: track.Metrics{"a": float64(i)}})
		}
		require.NoError(t, m.Close())
		require.Equal(t, x.sent, s.Metrics, "process %d", i)
	}
}

// TestMLflowNeverStopsTraining: the server does not respond, or refuses. Both are logged.
func TestMLflowNeverStopsTraining(t *testing.T) {
	s := traintest.NewMLflowServer(t)
	s.Refuse = true
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	m, err := mlflow.New(mlflow.Options{Dir: t.TempDir(), Metrics: path, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	for step := range 100 {
		recorded(t, path, m, track.Event{Kind: "step", Step: step, Metrics: track.Metrics{"a": 1}})
	}
	require.NoError(t, m.Close())
	require.Len(t, s.Calls, 1, "a refused request is not repeated")
	require.Contains(t, log.String(), "MLflow refuses this run")
	require.Contains(t, log.String(), "401 UNAUTHENTICATED")
}

// TestMLflowRunThatIsDeletedWhileItTrains is an error, once, and gets nothing more.
func TestMLflowRunThatIsDeletedWhileItTrains(t *testing.T) {
	s := traintest.NewMLflowServer(t)
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	m, err := mlflow.New(mlflow.Options{Dir: t.TempDir(), Metrics: path, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	sent := func(what string) int {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		return strings.Count(strings.Join(s.Calls, ","), what)
	}
	for step := range 3 {
		recorded(t, path, m, track.Event{Kind: "step", Step: step, Metrics: track.Metrics{"a": 1}})
		require.Eventually(t, func() bool { return sent("runs/log-batch") > step }, time.Minute, time.Millisecond)
	}
	s.Mu.Lock()
	s.Deleted = true
	s.Mu.Unlock()
	for step := 3; step < 6; step++ {
		recorded(t, path, m, track.Event{Kind: "step", Step: step, Metrics: track.Metrics{"a": 1}})
		require.Eventually(t, func() bool { return sent("runs/get") > 0 }, time.Minute, time.Millisecond)
	}
	require.NoError(t, m.Close())
	require.Equal(t, 4, sent("runs/log-batch"), "the first refused request is the last one")
	require.Equal(t, 1, strings.Count(log.String(), "level="))
	require.Contains(t, log.String(), "the run r0 was deleted on the server")
}

func TestMLflowNeedsTheAddressOfAServer(t *testing.T) {
	for _, address := range []string{"", "sqlite:///m.db", "./mlruns", "http://"} {
		t.Setenv("MLFLOW_TRACKING_URI", address)
		require.ErrorIs(t, mlflow.Check(), mlflow.ErrSetting, address)
		_, err := mlflow.New(mlflow.Options{Dir: t.TempDir(), Metrics: "metrics.jsonl"})
		testkit.Error(t, err, mlflow.ErrSetting, "MLFLOW_TRACKING_URI")
	}
	_, err := mlflow.New(mlflow.Options{Dir: t.TempDir()})
	testkit.Error(t, err, mlflow.ErrSetting, "Metrics is empty")
}
