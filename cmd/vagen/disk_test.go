package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// TestSecondRunKeepsTheEpisodesOfTheFirst: two runs with the same names do not share a
// folder for episodes, even if the folder of the first run was removed.
func TestSecondRunKeepsTheEpisodesOfTheFirst(t *testing.T) {
	config, out := setup(t)
	episodes, checks := filepath.Join(t.TempDir(), "episodes"), filepath.Join(t.TempDir(), "checks")
	args := []string{"train", config, "--log", "error", "trainer.rollout_data_dir=" + episodes,
		"trainer.validation_data_dir=" + checks, "--out"}
	succeed(t, append(args, out)...)
	before, before2 := leavings(t, episodes), leavings(t, checks)
	require.Contains(t, before, "step_1.parquet")
	require.Contains(t, before2, "step_1.parquet")

	second := out + "-second"
	for _, flags := range [][]string{{"--dry-run"}, nil} {
		errs := refuse(t, "trainer.rollout_data_dir: ", append(append(args, second), flags...)...)
		require.Contains(t, errs, "the run")
		require.Contains(t, errs, out)
		require.NoDirExists(t, second)
	}
	succeed(t, append(args, out)...) // the first run itself
	requireSame(t, before, leavings(t, episodes), "rollouts")
	requireSame(t, before2, leavings(t, checks), "validations")

	require.NoError(t, os.RemoveAll(out))
	refuse(t, "", append(args, out)...)
	requireSame(t, before, leavings(t, episodes), "episodes of a removed run are kept")
}

// TestARunWithoutACompleteCheckpointIsNotRestarted: with damaged checkpoints, broken
// links or an unmounted disk, no metrics and no checkpoint are lost.
func TestARunWithoutACompleteCheckpointIsNotRestarted(t *testing.T) {
	config, out := setup(t)
	args := []string{"train", config, "--log", "error", "--out", out}
	succeed(t, args...)
	points := filepath.Join(out, "checkpoints")
	point := filepath.Join(points, "step_1")
	whole := leavings(t, out)
	refused := func(why string, want ...string) {
		t.Helper()
		before := leavings(t, out)
		errs := fail(t, "", args...)
		for _, w := range append(want, "nothing was changed", "--out") {
			require.Contains(t, errs, w, why)
		}
		requireSame(t, before, leavings(t, out), why)
	}
	for name := range whole {
		name, in := strings.CutPrefix(name, "checkpoints/step_1/")
		if !in {
			continue
		}
		path := filepath.Join(point, name)
		raw := testkit.Read(t, path)
		bad := append([]byte{}, raw...)
		bad[len(bad)/2] ^= 1
		testkit.Write(t, path, bad)
		if name != "manifest.json" {
			refused("one bit of "+name, "checkpoint is incomplete or damaged", name)
		} else {
			refused("one bit of "+name, "checkpoint is incomplete or damaged")
			testkit.Write(t, path, "{}")
			refused("an empty manifest", "manifest.json of "+point+" must list state.json")
		}
		testkit.Write(t, path, raw)
	}
	disk := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.CopyFS(disk, os.DirFS(points)))
	require.NoError(t, os.RemoveAll(points))
	refused("the folder is gone", "metrics.jsonl reports a checkpoint of step 1")
	require.NoError(t, os.Symlink(disk+"-away", points))
	refused("the disk is not mounted", "metrics.jsonl reports a checkpoint of step 1")

	require.NoError(t, os.Remove(points))
	require.NoError(t, os.Mkdir(points, 0o755))
	require.NoError(t, os.Symlink(filepath.Join(disk, "step_1"), point))
	require.NoError(t, os.Rename(filepath.Join(disk, "step_1", "actor"), filepath.Join(disk, "actor")))
	require.NoError(t, os.Symlink(filepath.Join(disk, "actor"), filepath.Join(disk, "step_1", "actor")))
	require.Contains(t, succeed(t, args...), "after step 1\n", "links are followed")
	require.FileExists(t, filepath.Join(disk, "actor", "config.json"))
	require.NoError(t, os.Remove(point))
	require.NoError(t, os.Remove(points))
	require.NoError(t, os.Remove(filepath.Join(disk, "step_1", "actor")))
	require.NoError(t, os.Rename(filepath.Join(disk, "actor"), filepath.Join(disk, "step_1", "actor")))
	require.NoError(t, os.Symlink(disk, points))
	require.Contains(t, succeed(t, args...), "after step 1\n", "the folder of checkpoints may be a link")
}
