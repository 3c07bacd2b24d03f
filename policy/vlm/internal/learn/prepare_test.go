package learn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
)

// Prepare compiles exactly the executables that a step runs: one with a wrong shape would
// be compiled in vain.
func TestEverythingThatIsPreparedRuns(t *testing.T) {
	for name, o := range map[string]Options{
		"all":                {},
		"several chunks":     {HeadTokens: 16},
		"several packs":      {MicroTokens: 32},
		"blocks again":       {Recompute: vlm.RecomputeBlocks},
		"attention again":    {Recompute: vlm.RecomputeAttention},
		"bfloat16":           {BFloat16: true},
		"shared critic":      {Critic: learn.SharedCritic},
		"separate critic":    {Critic: learn.SeparateCritic},
		"adapters":           {LoRA: Adapters(), Critic: learn.SeparateCritic},
		"adapters above":     {LoRA: &LoRA{Rank: 2, Alpha: 2}},
		"frozen tower":       {Freeze: []string{"model.visual.*"}},
		"frozen but for one": {Freeze: []string{"model.visual.*", "*.embed_tokens.weight", "*.layers.*", "*.norm.weight"}},
	} {
		if name == "frozen but for one" {
			o.Critic = learn.SharedCritic
		}
		families := []model.Family{model.Qwen25VL, model.Qwen3VL}
		if o.HeadTokens > 0 || o.BFloat16 || o.Critic != "" { // not about the tower, in which the two differ
			families = families[:1]
		}
		for _, family := range families {
			m := New(t, family, o)
			b := playedBatch(t, m)
			aim := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}}
			if m.Sets.CriticOptions.Kind != learn.NoCritic {
				aim.ValueCoef, aim.ValueClip = 0.5, 0.2
			}
			update(t, m, b, aim, policy.DefaultOptimizer())
			require.Empty(t, m.Dev.Unused(), "%s of %s", name, family)
			count := m.Dev.Executables()
			update(t, m, b, aim, policy.DefaultOptimizer())
			require.Equal(t, count, m.Dev.Executables(), "%s of %s: the first step has compiled all", name, family)
		}
	}

	m := New(t, model.Qwen25VL, Options{})
	b := playedBatch(t, m)
	packs, err := m.Sets.Packer(m.Net).Packs(&b.Rows, learn.NonZero(len(b.Tokens), b.Weight))
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, m.Sets.Actor.Prepare(packs[0], m.Net.Head(true, false), m.Sets.Batching.HeadTokens))
		require.Greater(t, len(m.Dev.Unused()), 8, "most of a step")
	}
}
