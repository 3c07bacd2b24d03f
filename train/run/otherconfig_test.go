package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/train/config"
	"vagen/train/run"
)

func TestAnotherConfigurationIsShownAndRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	c := traintest.Small()
	_, err := run.CreateFolder(dir, &c)
	require.NoError(t, err)
	c.Run.Workers = 99
	_, err = run.OpenFolder(dir, &c)
	require.NoError(t, err, "workers change no result")

	low := 0.125
	c.Algorithm.Lambda, c.Agent.Actor.ClipLow, c.Env.Config = 0.5, &low, map[string]any{"turns": 3}
	_, err = run.OpenFolder(dir, &c)
	testkit.Error(t, err, run.ErrOtherConfig, `env.config: {"turns":2} → {"turns":3}`, "algorithm.lam: 0.95 → 0.5",
		"actor_rollout_ref.actor.clip_ratio_low: null → 0.125")
	allowed := c
	allowed.Trainer.AllowChange = true
	f, err := run.OpenFolder(dir, &allowed)
	require.NoError(t, err)
	before := testkit.Read(t, filepath.Join(dir, "config.yaml"))
	old := traintest.Small()
	raw, err := old.YAML()
	require.NoError(t, err)
	require.Equal(t, string(raw), string(before), "nothing is written before the folder is locked")
	unlock, err := f.Lock()
	require.NoError(t, err)
	_, err = run.OpenFolder(dir, &c)
	require.ErrorIs(t, err, run.ErrBusy)
	require.NoError(t, unlock())
	old.Trainer.AllowChange = true
	late, err := run.OpenFolder(dir, &old)
	require.NoError(t, err)
	f, err = run.OpenFolder(dir, &c)
	require.NoError(t, err, "the allowed change is stored as the run's configuration")
	require.Empty(t, f.Changed)
	unlock, err = late.Lock()
	require.NoError(t, err)
	require.NoError(t, unlock())
	_, err = f.Lock()
	require.ErrorIs(t, err, run.ErrOtherConfig, "another process replaced it since")

	_, err = run.OpenFolder(filepath.Join(dir, "none"), &c)
	require.ErrorIs(t, err, os.ErrNotExist)
	testkit.Write(t, filepath.Join(dir, "config.yaml"), "model: nonsense\n")
	_, err = run.OpenFolder(dir, &c)
	require.ErrorIs(t, err, config.ErrConfig)
}

// TestTheNumberOfStepsMayChangeIfNoStepDependsOnIt: to more or fewer steps, without
// allow_config_change. Otherwise only to more, and the settings because of which it matters are named.
func TestTheNumberOfStepsMayChangeIfNoStepDependsOnIt(t *testing.T) {
	start := func(set string) (string, config.Config) {
		dir := filepath.Join(t.TempDir(), "run")
		c := traintest.Small()
		traintest.Set(t, &c, set)
		_, err := run.CreateFolder(dir, &c)
		require.NoError(t, err)
		return dir, c
	}
	dir, c := start("")
	for _, steps := range [][2]int{{3, 5}, {5, 2}} {
		c.Trainer.Steps, c.Trainer.Epochs = steps[1], steps[1]
		f, err := run.OpenFolder(dir, &c)
		require.NoError(t, err)
		require.Contains(t, f.Changed, fmt.Sprintf("trainer.total_training_steps: %d → %d", steps[0], steps[1]))
		require.Len(t, f.Changed, 2, "and that of the epochs")
		unlock, err := f.Lock() // writes the configuration
		require.NoError(t, err)
		require.NoError(t, unlock())
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "checkpoints", "step_2"), 0o755))
	_, err := run.OpenFolder(dir, &c)
	require.NoError(t, err, "as many as are done")
	c.Trainer.Steps = 1
	_, err = run.OpenFolder(dir, &c)
	testkit.Error(t, err, run.ErrOtherConfig, "steps: the run has done 2, which is more than 1")
	c.Trainer.Steps, c.Algorithm.Gamma = 6, 0.5
	_, err = run.OpenFolder(dir, &c)
	require.ErrorContains(t, err, "algorithm.gamma: 1 → 0.5")
	require.NotContains(t, err.Error(), "total_training_steps", "which needs no permission")

	for _, set := range []string{"actor_rollout_ref.actor.optim.warmup_style=cosine",
		"actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0.5"} {
		want := strings.Replace(set, "=", " is ", 1)
		for _, steps := range []int{2, 5} {
			dir, c := start(set)
			c.Trainer.Steps = steps
			note := fmt.Sprintf("steps: with %d instead of 3 all of them are different, because %s", steps, want)
			if steps < 3 {
				_, err = run.OpenFolder(dir, &c)
				testkit.Error(t, err, run.ErrOtherConfig, fmt.Sprintf("trainer.total_training_steps: 3 → %d", steps),
					note)
				c.Trainer.AllowChange = true
			}
			f, err := run.OpenFolder(dir, &c)
			require.NoError(t, err)
			require.Len(t, f.Changed, 2)
			require.Contains(t, f.Changed[1], note)
		}
	}
}

// TestRunsOfAnotherLengthHaveTheSameSteps: a run that was ended after six of twelve steps, and one of six
// steps that was extended, have the weights and the metrics of each step that runs of these
// lengths have. With a schedule over all steps, for which the number may not change, they have not.
func TestRunsOfAnotherLengthHaveTheSameSteps(t *testing.T) {
	steps := func(dir string) (lines []string) {
		for line := range strings.Lines(traintest.Files(t, dir)["metrics.jsonl"]) {
			if strings.Contains(line, `"kind":"step"`) {
				lines = append(lines, line)
			}
		}
		return lines
	}
	train := func(dir string, n int, style string) {
		c := long()
		c.Trainer.Steps, c.Trainer.BestActor, c.Agent.Actor.Optim.Style, c.Trainer.AllowChange = n, false, style,
			style != "constant"
		require.NoError(t, trainIn(t.Context(), dir, c, nil))
	}
	const last = "checkpoints/step_12/table.json"
	for _, style := range []string{"constant", "cosine"} {
		root := t.TempDir()
		short, whole := filepath.Join(root, "short"), filepath.Join(root, "whole")
		train(short, 6, style)
		train(whole, 12, style)
		all := traintest.Files(t, whole)
		for later := 8; later <= 12; later += 2 { // as if it had been stopped after step 6
			require.NoError(t, os.RemoveAll(filepath.Join(whole, "checkpoints", fmt.Sprint("step_", later))))
		}
		six := traintest.Files(t, short)["checkpoints/step_6/table.json"]
		require.NotEmpty(t, six)
		require.Len(t, steps(whole), 12)
		before := steps(short)
		train(whole, 6, style)
		train(short, 12, style)
		extended := traintest.Files(t, short)
		require.Len(t, steps(short), 12)
		if style == "cosine" {
			require.NotEqual(t, all[last], extended[last])
			require.NotEqual(t, six, traintest.Files(t, whole)["checkpoints/step_6/table.json"])
			continue
		}
		require.Equal(t, all[last], extended[last])
		require.Equal(t, six, traintest.Files(t, whole)["checkpoints/step_6/table.json"])
		require.Equal(t, before, steps(whole))
		for i, line := range steps(short) {
			require.Contains(t, all["metrics.jsonl"], line, "step %d", i+1)
		}
	}
}

// TestARunOfAnEarlierVersionIsCompared: its config.yaml has keys that are aliases now,
// null or beside the value that they set.
func TestARunOfAnEarlierVersionIsCompared(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	c := traintest.Small()
	c.Critic.Kind = "none"
	_, err := run.CreateFolder(dir, &c)
	require.NoError(t, err)
	name := filepath.Join(dir, "config.yaml")
	raw := testkit.Read(t, name)
	older := strings.Replace(string(raw), "\ncritic:\n", "\ncritic:\n  enable: false\n", 1)
	older = strings.Replace(older, "    path: null\n", "    path: null\n    enable_gradient_checkpointing: null\n", 1)
	require.Len(t, older, len(raw)+len("  enable: false\n    enable_gradient_checkpointing: null\n"))
	testkit.Write(t, name, older)
	f, err := run.OpenFolder(dir, &c)
	require.NoError(t, err)
	require.Empty(t, f.Changed)
	c.Critic.Kind = "shared"
	_, err = run.OpenFolder(dir, &c)
	require.ErrorContains(t, err, `critic.kind: "none" → "shared"`)
	require.NotContains(t, err.Error(), "\n  critic.enable")
}
