package vlm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
)

// Prepare compiles exactly the executables that a step runs: one with a wrong shape would
// be compiled in vain.
func TestEverythingThatIsPreparedRuns(t *testing.T) {
	for name, o := range map[string]Options{
		"all":                {},
		"several chunks":     {HeadTokens: 16},
		"several packs":      {MicroTokens: 32},
		"blocks again":       {Recompute: RecomputeBlocks},
		"attention again":    {Recompute: RecomputeAttention},
		"bfloat16":           {BFloat16: true},
		"shared critic":      {Critic: SharedCritic},
		"separate critic":    {Critic: SeparateCritic},
		"adapters":           {LoRA: lora(), Critic: SeparateCritic},
		"adapters above":     {LoRA: &LoRA{Rank: 2, Alpha: 2}},
		"frozen tower":       {Freeze: []string{"model.visual.*"}},
		"frozen but for one": {Freeze: []string{"model.visual.*", "*.embed_tokens.weight", "*.layers.*", "*.norm.weight"}},
	} {
		if name == "frozen but for one" {
			o.Critic = SharedCritic
		}
		for _, family := range []model.Family{model.Qwen25VL, model.Qwen3VL} {
			m := newTiny(t, family, o)
			b := playedBatch(t, m)
			aim := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}}
			if m.opts.Critic != NoCritic {
				aim.ValueCoef, aim.ValueClip = 0.5, 0.2
			}
			_, err := m.Update(t.Context(), b, aim, policy.DefaultOptimizer())
			require.NoError(t, err)
			require.Empty(t, m.dev.Unused(), "%s of %s", name, family)
			count := m.dev.Executables()
			_, err = m.Update(t.Context(), b, aim, policy.DefaultOptimizer())
			require.NoError(t, err)
			require.Equal(t, count, m.dev.Executables(), "%s of %s: the first step has compiled all", name, family)
		}
	}

	m := newTiny(t, model.Qwen25VL, Options{})
	b := playedBatch(t, m)
	packs, err := m.sets.Packer(m.net).Packs(&b.Rows, learn.NonZero(len(b.Tokens), b.Weight))
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, m.sets.Actor.Prepare(packs[0], m.net.Head(true, false), m.opts.HeadTokens))
		require.Greater(t, len(m.dev.Unused()), 8, "most of a step")
	}
}
