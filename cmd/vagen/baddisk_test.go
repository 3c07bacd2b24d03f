package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/run"
)

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestAFolderOfAnotherRunIsNotChanged, nor a folder that another process uses or that
// cannot be written.
func TestAFolderOfAnotherRunIsNotChanged(t *testing.T) {
	config, out := setup(t)
	succeed(t, "train", config, "--log", "error", "--out", out)
	before := leavings(t, out)
	for _, c := range []struct {
		name, want string
		args       []string
		arrange    func() (undo func())
	}{
		{"another run", "run.seed: 0 → 8", []string{"run.seed=8"}, nil},
		{"resuming is disabled", "already contains a run", []string{"trainer.resume_mode=disable"}, nil},
		{"in use", "another process uses the run", []string{
			"algorithm.gamma=0.5", "trainer.allow_config_change=true",
		}, func() func() {
			unlock, err := (&run.Folder{Path: out}).Lock()
			require.NoError(t, err)
			return func() { require.NoError(t, unlock()) }
		}},
		{"no folder", "not a directory", []string{"--out", filepath.Join(out, "config.yaml", "run")}, nil},
	} {
		if c.arrange != nil {
			defer c.arrange()()
		}
		fail(t, c.want, append([]string{"train", config, "--log", "error", "--out", out}, c.args...)...)
		requireSame(t, before, leavings(t, out), c.name)
	}
	refuse(t, "", "train", config, "--out", out, "--resume", "trainer.resume_mode=disable")
}

// TestARunBranchesOffACheckpoint starts a run from a checkpoint of another run: the new
// run gets a copy of the metrics, and the other run is not changed.
func TestARunBranchesOffACheckpoint(t *testing.T) {
	config, out := setup(t)
	args := []string{"train", config, "--log", "error", "trainer.save_freq=1", "trainer.max_actor_ckpt_to_keep=null",
		"trainer.total_training_steps=3"}
	succeed(t, append(args, "--out", out)...)
	before := leavings(t, out)
	branch := filepath.Join(t.TempDir(), "branch")
	from := filepath.Join(out, "checkpoints", "step_1")
	more := append(args, "trainer.resume_mode=resume_path", "trainer.resume_from_path="+from)
	prints(t, "resuming after step 1\n", append(more, "--out", branch)...)
	requireSame(t, before, leavings(t, out), "the source run is unchanged")
	got := leavings(t, branch)
	require.Equal(t, before["metrics.jsonl"], got["metrics.jsonl"])
	for _, name := range []string{"actor/model.safetensors", "optimizer/actor.safetensors", "state.json"} {
		require.True(t, before["checkpoints/step_3/"+name] == got["checkpoints/step_3/"+name], name)
	}
	require.NotContains(t, strings.Join(list(t, filepath.Join(branch, "checkpoints")), " "), "step_1")

	errs := fail(t, "actor_rollout_ref.actor.clip_ratio: 0.2 → 0.1",
		append(more, "--out", filepath.Join(t.TempDir(), "other"), "actor_rollout_ref.actor.clip_ratio=0.1")...)
	require.Contains(t, errs, "trainer.allow_config_change=true")
	c, said := command(t, t.TempDir(), append(more, "--log", "warn", "--out", filepath.Join(t.TempDir(), "other"),
		"actor_rollout_ref.actor.clip_ratio=0.1", "trainer.allow_config_change=true")...)
	require.NoError(t, c.Run(), said.String())
	require.Contains(t, said.String(), "actor_rollout_ref.actor.clip_ratio: 0.2 → 0.1", "the difference is still reported")

	refuse(t, "is a checkpoint of the run in "+out+" itself", append(args, "--out", out,
		"trainer.resume_mode=resume_path",
		"trainer.resume_from_path="+from)...)
	refuse(t, "none is not a checkpoint", append(args, "--out", branch, "trainer.resume_mode=resume_path",
		"trainer.resume_from_path=none")...)
}
