package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/vlm"
	"vagen/train/config"
)

// TestThePlanHasTheLengthsThatARunAllows: an opening of 100 tokens, observations of 20 and responses
// of at most 50, so that an episode of 10 turns without limits has 100 + 9·20 + 10·50 tokens.
func TestThePlanHasTheLengthsThatARunAllows(t *testing.T) {
	begin, later := vlm.Size{Tokens: 100, Images: 1, Patches: 16}, vlm.Size{Tokens: 20, Images: 1, Patches: 16}
	window := 2
	for name, c := range map[string]struct {
		set            func(c *config.Config)
		context        int
		tokens, wanted int
		images         int
	}{
		"no limit":          {func(c *config.Config) {}, 0, 780, 500, 10},
		"a long context":    {func(c *config.Config) {}, 32768, 780, 500, 10},
		"the model's limit": {func(c *config.Config) {}, 640, 640, 500, 10},
		"a short context":   {func(c *config.Config) {}, 400, 400, 400, 10},
		"a trajectory limit": {func(c *config.Config) {
			c.Data.MaxPrompt, c.Rollout.MaxTrajectory = 120, 420
		}, 32768, 400, 400, 10},
		"a longer one": {func(c *config.Config) {
			c.Data.MaxPrompt, c.Rollout.MaxTrajectory = 120, 4000
		}, 32768, 780, 500, 10},
		"a response region": {func(c *config.Config) { c.Data.MaxResponse, c.Data.PerTurn = 200, 50 }, 32768, 300, 300, 10},
		"one turn each":     {func(c *config.Config) { c.Trainer.Harness = "no_concat" }, 32768, 150, 50, 1},
		"a window": {func(c *config.Config) {
			c.Trainer.Harness, c.Rollout.WindowSize = "window", &window
		}, 32768, 290, 150, 3},
		"compaction": {func(c *config.Config) {
			c.Trainer.Harness, c.Trainer.CompactBudget = "compact", 300
		}, 32768, 420, 420, 10},
		"few images": {func(c *config.Config) { c.Agent.Rollout.MaxImages = 4 }, 32768, 780, 500, 4},
	} {
		cfg := config.Default()
		cfg.Rollout.MaxTurns, cfg.Data.MaxResponse = 10, 50
		c.set(&cfg)
		w := workload(&cfg, begin, later, c.context)
		require.Equal(t, []int{c.tokens, c.wanted, c.images}, []int{w.Tokens, w.Wanted, w.Images}, name)
		read := []int{0, 0} // all
		if cfg.Trainer.Harness == "concat" {
			read = []int{21, 1} // an observation, and the last token of the response before it
		}
		require.Equal(t, read, []int{w.ReadTokens, w.ReadImages}, name)
		require.Equal(t, 100, w.OpenTokens, name)
	}
}
