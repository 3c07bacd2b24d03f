package run_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/train/track"
	"vagen/train/track/curve"
	"vagen/train/track/mlflow"
	"vagen/train/track/tensorboard"
)

// rolledBack is a run that goes back from step 4 to step 2. The values that are kept are the
// step numbers.
func rolledBack() []track.Event {
	at := func(step int, x float64) track.Event {
		return track.Event{Kind: track.KindStep, Step: step, Metrics: track.Metrics{"a": x}}
	}
	return []track.Event{
		at(1, 1), at(2, 2), at(3, -3), at(4, -4),
		{Kind: track.KindRollback, Step: 2, Metrics: track.Metrics{"train/rollbacks": 1}},
		at(3, 3), at(4, 4), at(5, 5),
	}
}

func emitAll(t *testing.T, s track.Sink) {
	t.Helper()
	for _, e := range rolledBack() {
		require.NoError(t, s.Event(e))
	}
	require.NoError(t, s.Close())
}

// only returns the content of the one file that a pattern names.
func only(t *testing.T, pattern ...string) (path string, raw []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pattern...))
	require.NoError(t, err)
	require.Len(t, files, 1)
	return files[0], testkit.Read(t, files[0])
}

// TensorBoard discards values from the step of a session start on.
func TestTensorBoardForgetsWhatWasUndone(t *testing.T) {
	dir := t.TempDir()
	s, err := tensorboard.New(dir)
	require.NoError(t, err)
	emitAll(t, s)
	path, _ := only(t, dir, "events.out.tfevents.*")
	var steps []uint64
	for i, r := range traintest.TFRecords(t, path) {
		event := traintest.Fields(t, r)
		if i == 0 {
			continue
		}
		step, _ := protowire.ConsumeVarint(event[2][0])
		if session := event[7]; session != nil {
			require.Equal(t, []byte{8, 1}, session[0], "status START")
			require.EqualValues(t, 3, step)
			steps = steps[:2]
			continue
		}
		steps = append(steps, step)
	}
	require.Equal(t, []uint64{1, 2, 3, 4, 5}, steps)
}

// Metrics that were not sent to MLflow when a rollback occurs are never sent; those of the
// repeated steps are, also if the server already has values of these steps.
func TestMLflowGetsTheWayThatWasKept(t *testing.T) {
	s := traintest.NewMLflowServer(t)
	dir := t.TempDir()
	tell := func() {
		s.Mu.Lock() // the server does not answer until all events are recorded
		path := filepath.Join(t.TempDir(), "metrics.jsonl")
		m, err := mlflow.New(mlflow.Options{Dir: dir, Metrics: path})
		require.NoError(t, err)
		file, err := track.NewJSONLines(path)
		require.NoError(t, err)
		for _, e := range rolledBack() {
			require.NoError(t, file.Event(e))
			require.NoError(t, m.Event(e))
		}
		require.NoError(t, file.Close())
		s.Mu.Unlock()
		require.NoError(t, m.Close())
	}
	tell()
	require.Equal(t, map[string]float64{"r0/a/1": 1, "r0/a/2": 2, "r0/a/3": 3, "r0/a/4": 4, "r0/a/5": 5}, s.Metrics)
	require.NotContains(t, strings.Join(s.Calls, ","), "twice")
	s.Latest, s.Metrics = 4, map[string]float64{"r0/a/4": -4}
	tell()
	require.Equal(t, map[string]float64{"r0/a/3": 3, "r0/a/4": 4, "r0/a/5": 5}, s.Metrics)
}

func TestCurvesShowTheWayThatWasKept(t *testing.T) {
	c := &curve.Curve{Train: "a", Val: "val"}
	for _, e := range rolledBack() {
		require.NoError(t, c.Event(e))
		if e.Kind == track.KindStep {
			require.NoError(t, c.Event(track.Event{Kind: track.KindValidate, Step: e.Step,
				Metrics: track.Metrics{"val": e.Metrics["a"]}}))
		}
		if e.Step == 2 && e.Kind == track.KindRollback {
			_, last := c.Ends()
			require.Equal(t, 2.0, last)
		}
	}
	first, last := c.Ends()
	require.True(t, math.IsNaN(first), "nothing was validated before the first step")
	require.Equal(t, 5.0, last)
}
