package mlflow_test

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/train/config"
	"vagen/train/track"
	"vagen/train/track/mlflow"
	"vagen/train/track/wandb"
)

// TestMLflowHasTheWholeRun: parameters, every finite figure and the state, also
// when the server is away at first, and once when the run goes on.
func TestMLflowHasTheWholeRun(t *testing.T) {
	s, getenv := traintest.NewMLflowServer(t)
	s.Broken = 1
	dir := t.TempDir()
	var log bytes.Buffer
	c := config.Default()
	m, err := mlflow.New(dir, &c, getenv, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	for step := 1; step <= 2; step++ {
		require.NoError(t, m.Event(track.Event{Kind: "step", Step: step, Metrics: track.Metrics{"a": float64(step), "b: c//d": 4, "bad": math.NaN()}}))
	}
	m.Ended(context.Canceled)
	require.NoError(t, m.Close())
	require.NoError(t, m.Close(), "once is enough")
	require.Equal(t, map[string]any{"name": "run", "status": "KILLED"}, s.Runs["r0"])
	require.Equal(t, map[string]float64{"r0/a/1": 1, "r0/a/2": 2, "r0/b_ c/_/d/1": 4, "r0/b_ c/_/d/2": 4}, s.Metrics)
	require.Equal(t, `"gae"`, s.Params["algorithm.adv_estimator"])
	require.Equal(t, "Bearer secret", s.Auth)
	require.Contains(t, log.String(), "MLflow does not respond")
	require.Contains(t, log.String(), "MLflow responds again")
	require.NotContains(t, log.String(), "secret")

	m, err = mlflow.New(dir, &c, getenv, nil)
	require.NoError(t, err)
	for step := 1; step <= 3; step++ {
		require.NoError(t, m.Event(track.Event{Kind: "step", Step: step, Metrics: track.Metrics{"a": float64(step)}}))
	}
	m.Ended(nil)
	require.NoError(t, m.Close())
	require.Len(t, s.Runs, 1, "the run continues with its id")
	require.Equal(t, "FINISHED", s.Runs["r0"]["status"])
	require.InDelta(t, 3, s.Metrics["r0/a/3"], 0)
	for _, call := range s.Calls {
		require.NotContains(t, call, "twice")
	}
}

// TestMLflowNeverStopsTraining: nobody answers, or the server refuses. Both are said.
func TestMLflowNeverStopsTraining(t *testing.T) {
	s, getenv := traintest.NewMLflowServer(t)
	s.Refuse = true
	var log bytes.Buffer
	c := config.Default()
	m, err := mlflow.New(t.TempDir(), &c, getenv, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	for step := range 1000 {
		require.NoError(t, m.Event(track.Event{Kind: "step", Step: step, Metrics: track.Metrics{"a": 1}}))
	}
	require.NoError(t, m.Close())
	require.Len(t, s.Calls, 1, "who is refused does not ask again")
	require.Contains(t, log.String(), "MLflow refuses this run")
	require.Contains(t, log.String(), "401 UNAUTHENTICATED")
}

func TestMLflowNeedsTheAddressOfAServer(t *testing.T) {
	c := config.Default()
	for _, address := range []string{"", "sqlite:///m.db", "./mlruns", "http://"} {
		_, err := mlflow.New(t.TempDir(), &c, func(string) (string, bool) { return address, true }, nil)
		require.ErrorIs(t, err, config.ErrConfig, address)
		require.ErrorContains(t, err, "MLFLOW_TRACKING_URI")
	}
}

// TestWandBWritesOneFileForARun: rows of steps that go up, also when it goes on.
func TestWandBWritesOneFileForARun(t *testing.T) {
	dir := t.TempDir()
	c := config.Default()
	history := []track.Event{
		{Kind: track.KindImitate, Step: 60, Metrics: track.Metrics{"imitate/loss": 3}},
		{Kind: track.KindValidate, Step: 0, Metrics: track.Metrics{"val/success": 0.25}},
		{Kind: track.KindStep, Step: 1, Metrics: track.Metrics{"train/score": 0.5}},
		{Kind: track.KindSave, Step: 1},
	}
	var sizes []int
	var first string
	for i := range 2 {
		w, err := wandb.New(dir, &c)
		require.NoError(t, err)
		for _, e := range history {
			require.NoError(t, w.Event(e))
		}
		w.Ended(nil)
		require.NoError(t, w.Close())
		require.NoError(t, w.Close())
		if i == 0 {
			first = w.Dir()
		}
		require.Equal(t, first, w.Dir())
		files, err := filepath.Glob(filepath.Join(w.Dir(), "run-*.wandb"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		raw, err := os.ReadFile(files[0])
		require.NoError(t, err)
		require.Equal(t, 4, bytes.Count(raw, []byte("\x12\x05_step")), "two rows, each as history and as summary")
		require.Equal(t, 2, bytes.Count(raw, []byte("imitate/loss")))
		sizes = append(sizes, len(raw))
	}
	require.InDelta(t, sizes[0], sizes[1], 64, "the same, but for times")
}
