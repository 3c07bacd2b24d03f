package mlflow_test

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/train/track"
	"vagen/train/track/mlflow"
)

// TestMLflowHasTheWholeRun: parameters, every finite metric and the state, also when
// the server is down at first; a resumed run sends none of them twice.
func TestMLflowHasTheWholeRun(t *testing.T) {
	s := traintest.NewMLflowServer(t)
	s.Broken = 1
	dir := t.TempDir()
	var log bytes.Buffer
	m, err := mlflow.New(mlflow.Options{Dir: dir, Experiment: "run", Params: map[string]string{"algorithm.adv_estimator": `"gae"`}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	for step := 1; step <= 2; step++ {
		require.NoError(t, m.Event(track.Event{Kind: "step", Step: step, Metrics: track.Metrics{"a": float64(step), "b: c//d": 4, "bad": math.NaN()}}))
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

	m, err = mlflow.New(mlflow.Options{Dir: dir})
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

// TestMLflowNeverStopsTraining: the server does not respond, or refuses. Both are logged.
func TestMLflowNeverStopsTraining(t *testing.T) {
	s := traintest.NewMLflowServer(t)
	s.Refuse = true
	var log bytes.Buffer
	m, err := mlflow.New(mlflow.Options{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	for step := range 1000 {
		require.NoError(t, m.Event(track.Event{Kind: "step", Step: step, Metrics: track.Metrics{"a": 1}}))
	}
	require.NoError(t, m.Close())
	require.Len(t, s.Calls, 1, "a refused request is not repeated")
	require.Contains(t, log.String(), "MLflow refuses this run")
	require.Contains(t, log.String(), "401 UNAUTHENTICATED")
}

func TestMLflowNeedsTheAddressOfAServer(t *testing.T) {
	for _, address := range []string{"", "sqlite:///m.db", "./mlruns", "http://"} {
		t.Setenv("MLFLOW_TRACKING_URI", address)
		require.ErrorIs(t, mlflow.Check(), mlflow.ErrSetting, address)
		_, err := mlflow.New(mlflow.Options{Dir: t.TempDir()})
		require.ErrorIs(t, err, mlflow.ErrSetting, address)
		require.ErrorContains(t, err, "MLFLOW_TRACKING_URI")
	}
}
