package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/reward"
	"vagen/rollout"
	"vagen/train/config"
)

// TestLoggingSettingsAreCheckedTogether names every key that is wrong.
func TestLoggingSettingsAreCheckedTogether(t *testing.T) {
	c := config.Default()
	for _, o := range []string{
		"trainer.logger=[console, console, wandbb, prometheus]", "trainer.prometheus_address=localhost",
		"trainer.val_log_select=luck",
		"trainer.val_log_success_ratio=2", "trainer.log_val_generations=-1", "trainer.rollout_data_dir=a/b",
		"trainer.validation_data_dir=a/./b",
		"trainer.log_image.max_pending=0", "trainer.log_image.png_compress_level=10", "trainer.log_image.disk_quota_mb=-1",
	} {
		require.NoError(t, c.Override(o))
	}
	err := c.Validate()
	for _, want := range []string{
		"trainer.logger has console twice", `"wandbb", must be one of`, `did you mean "wandb"?`,
		"trainer.prometheus_address is \"localhost\"",
		`trainer.val_log_select is "luck"`, "trainer.val_log_success_ratio is 2", "trainer.log_val_generations is -1",
		"both would write step_<n>.parquet",
		"max_pending is 0", "png_compress_level is 10", "disk_quota_mb is -1",
	} {
		require.ErrorContains(t, err, want)
	}
	c, err = config.Load("", "env.name=frozenlake", "trainer.log_image.enable=true")
	require.NoError(t, err)
	require.Contains(t, c.Notes[0].String(), "no images are stored")
	c, err = config.Load("", "env.name=frozenlake", "trainer.log_image.enable=true", "trainer.rollout_data_dir=x")
	require.NoError(t, err)
	require.Empty(t, c.Notes)
}

// TestWandBIsAcceptedWithANote, because recipes name it, and adds nothing to the run.
func TestWandBIsAcceptedWithANote(t *testing.T) {
	c, err := config.Load("", "env.name=frozenlake", "trainer.logger=['console','wandb']")
	require.NoError(t, err)
	require.Equal(t, []string{config.LogConsole, config.LogWandB}, c.Trainer.Logger)
	require.Len(t, c.Notes, 1)
	require.Equal(t, []string{"trainer.logger"}, c.Notes[0].Keys)
	require.True(t, c.Notes[0].Warn)
	require.Contains(t, c.Notes[0].About, "W&B is not contacted; metrics.jsonl has everything")
	c, err = config.Load("", "env.name=frozenlake", "trainer.logger=[console]")
	require.NoError(t, err)
	require.Empty(t, c.Notes)
}

// TestShownEpisodesFollowTheChoice by success, reward and order.
func TestShownEpisodesFollowTheChoice(t *testing.T) {
	var ts []*rollout.Trajectory
	for i, r := range []float64{1, -1, 3, 0} {
		ts = append(ts, &rollout.Trajectory{
			Episode: rollout.Episode{Env: "x", Seed: int64(i)}, End: rollout.EndDone, Success: r > 0,
			Turns: []rollout.Turn{{Reward: reward.Parts{{Name: "a", Value: r}}}},
		})
	}
	for choice, want := range map[string][]int64{"first": {0, 1}, "failures": {1, 3}, "successes": {0, 2}, "best": {2, 0},
		"worst": {1, 3}, "balanced": {0, 1}} {
		c := config.Default().Trainer.LoggingConfig
		c.ValSelect, c.LogEpisodes = choice, 2
		shown, err := c.Shown(ts)
		require.NoError(t, err)
		var got []int64
		for _, s := range shown {
			got = append(got, s.Seed)
		}
		require.Equal(t, want, got, choice)
	}
}
