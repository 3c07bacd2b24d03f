package rundir_test

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/train/rundir"
	"vagen/train/track"
)

func TestEventsAreThoseOfCompleteLines(t *testing.T) {
	dir := rundir.Dir(t.TempDir())
	for range dir.Events {
		t.Error("a run without metrics.jsonl has no events")
	}
	text := `{"kind":"step","step":1,"a":2,"b":null}` + "\n" + `{"kind":"step","step":1.5}` + "\n" +
		`{"kind":"save","step":2,"c":"no number"}` + "\n" +
		`{"kind":"save","step":2}` + "\n" + `{"kind":"step","step":3}`
	testkit.Write(t, dir.Path(rundir.MetricsName), text)
	var all []track.Event
	var faults []error
	for e, err := range dir.Events {
		if err != nil {
			faults = append(faults, err)
		} else {
			all = append(all, e)
		}
	}
	require.Len(t, all, 2)
	require.True(t, math.IsNaN(all[0].Metrics["b"]))
	delete(all[0].Metrics, "b")
	require.Equal(t, []track.Event{
		{Kind: track.KindStep, Step: 1, Metrics: track.Metrics{"a": 2}},
		{Kind: track.KindSave, Step: 2, Metrics: track.Metrics{}},
	}, all)
	require.Len(t, faults, 3)
	require.ErrorContains(t, faults[0], "line 2: step is 1.5, must be a whole number")
	require.ErrorContains(t, faults[1], `line 3: "c" is not a number`)
	require.ErrorIs(t, faults[2], rundir.ErrTorn, "also if it is an event as far as it was written")
	_, err := dir.Metrics(1)
	require.NoError(t, err)
	_, err = dir.Metrics(3)
	require.ErrorContains(t, err, "line 2", "the file is damaged before the step")
}

func TestOneProcessLocksAFolder(t *testing.T) {
	dir := rundir.Dir(t.TempDir())
	unlock, err := dir.Lock()
	require.NoError(t, err)
	_, err = dir.Lock()
	require.ErrorIs(t, err, rundir.ErrBusy)
	require.NoError(t, unlock())
	unlock, err = dir.Lock()
	require.NoError(t, err)
	require.NoError(t, unlock())
	_, err = rundir.Dir(filepath.Join(string(dir), "none")).Lock()
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestNamesWithNumbers(t *testing.T) {
	dir := rundir.Dir(t.TempDir())
	steps, err := dir.Steps()
	require.NoError(t, err)
	require.Empty(t, steps)
	for _, name := range []string{"step_2", "step_10", "step_3.tmp", "step_04", "step_-1", "step_", "actor_step_7"} {
		require.NoError(t, os.MkdirAll(dir.Path(rundir.Checkpoints+"/"+name), 0o755))
	}
	testkit.Write(t, dir.Path(rundir.Checkpoint(5)), "")
	require.NoError(t, os.Symlink("step_2", dir.Path(rundir.Checkpoint(6))))
	steps, err = dir.Steps()
	require.NoError(t, err)
	require.Equal(t, []int{10, 6, 2}, steps)

	for name, want := range map[string]string{
		rundir.EpisodesName(12): "12 false true", rundir.ScoresName(0): "0 true true",
		"step_1.parquet.tmp": "false", "step_01.parquet": "false", "step_x.scores.parquet": "false",
		"step_1.log": "false",
	} {
		step, scores, ok := rundir.StepOf(name)
		require.Contains(t, fmt.Sprint(step, scores, ok), want, name)
	}
	require.Equal(t, "step_12.parquet", rundir.EpisodesName(12))
	require.Equal(t, "step_0.scores.parquet", rundir.ScoresName(0))
}
