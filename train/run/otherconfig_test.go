package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
	require.ErrorIs(t, err, run.ErrOtherConfig)
	require.ErrorContains(t, err, `env.config: {"turns":2} → {"turns":3}`)
	require.ErrorContains(t, err, "algorithm.lam: 0.95 → 0.5")
	require.ErrorContains(t, err, "actor_rollout_ref.actor.clip_ratio_low: null → 0.125")
	allowed := c
	allowed.Trainer.AllowChange = true
	f, err := run.OpenFolder(dir, &allowed)
	require.NoError(t, err)
	before, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
	require.NoError(t, err)
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
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("nonsense: 1\n"), 0o644))
	_, err = run.OpenFolder(dir, &c)
	require.ErrorIs(t, err, config.ErrConfig)
}

// TestARunMayBeMadeLonger: by more steps than it had, without allow_config_change;
// schedules that depend on their number are named.
func TestARunMayBeMadeLonger(t *testing.T) {
	for style, want := range map[string][]string{
		"constant": {"trainer.total_training_steps: 3 → 5"},
		"cosine":   {"trainer.total_training_steps: 3 → 5", "schedules: the remaining steps use the schedules of a run of 5 steps"},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		c := traintest.Small()
		c.Agent.Actor.Optim.Style = style
		_, err := run.CreateFolder(dir, &c)
		require.NoError(t, err)
		c.Trainer.Steps = 5
		f, err := run.OpenFolder(dir, &c)
		require.NoError(t, err)
		require.Equal(t, want, f.Changed)
		unlock, err := f.Lock() // writes the configuration
		require.NoError(t, err)
		require.NoError(t, unlock())
		c.Trainer.Steps = 4
		_, err = run.OpenFolder(dir, &c)
		require.ErrorIs(t, err, run.ErrOtherConfig, "shorter is another run")
		require.ErrorContains(t, err, "5 → 4")
		c.Trainer.Steps, c.Algorithm.Gamma = 6, 0.5
		_, err = run.OpenFolder(dir, &c)
		require.ErrorContains(t, err, "algorithm.gamma: 1 → 0.5")
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
	raw, err := os.ReadFile(name)
	require.NoError(t, err)
	older := strings.Replace(string(raw), "\ncritic:\n", "\ncritic:\n  enable: false\n", 1)
	older = strings.Replace(older, "    path: null\n", "    path: null\n    enable_gradient_checkpointing: null\n", 1)
	require.Len(t, older, len(raw)+len("  enable: false\n    enable_gradient_checkpointing: null\n"))
	require.NoError(t, os.WriteFile(name, []byte(older), 0o644))
	f, err := run.OpenFolder(dir, &c)
	require.NoError(t, err)
	require.Empty(t, f.Changed)
	c.Critic.Kind = "shared"
	_, err = run.OpenFolder(dir, &c)
	require.ErrorContains(t, err, `critic.kind: "none" → "shared"`)
}
