package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy/vlm"
	"vagen/train/config"
)

// TestThePlanHasTheLengthsThatARunAllows: an opening of 100 tokens, observations of 20 and responses
// of at most 50, so that an episode of 10 turns without limits has 100 + 9·20 + 10·50 tokens.
func TestThePlanHasTheLengthsThatARunAllows(t *testing.T) {
	begin, later := vlm.Size{Tokens: 100, Images: 1, Patches: 16}, vlm.Size{Tokens: 20, Images: 1, Patches: 16}
	for name, c := range map[string]struct {
		set                             string
		context, tokens, wanted, images int
	}{
		"no limit":          {"", 0, 780, 500, 10},
		"a long context":    {"", 32768, 780, 500, 10},
		"the model's limit": {"", 640, 640, 500, 10},
		"a short context":   {"", 400, 400, 400, 10},
		"a row's limit":     {"data.max_prompt_length=120 rollout_manager.max_trajectory_length=420", 32768, 400, 400, 10},
		"a longer one":      {"data.max_prompt_length=120 rollout_manager.max_trajectory_length=4000", 32768, 780, 500, 10},
		"a response region": {"data.max_response_length=200 data.response_length_per_turn=50", 32768, 300, 300, 10},
		"one turn each":     {"trainer.harness=no_concat", 32768, 150, 50, 1},
		"a window":          {"trainer.harness=window rollout_manager.window_size=2", 32768, 290, 150, 3},
		"compaction":        {"trainer.harness=compact trainer.compact_budget=300", 32768, 420, 420, 10},
		"few images":        {"actor_rollout_ref.rollout.limit_mm_per_prompt=4", 32768, 780, 500, 4},
	} {
		cfg := config.Default()
		cfg.Rollout.MaxTurns, cfg.Data.MaxResponse = 10, 50
		traintest.Set(t, &cfg, c.set)
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
