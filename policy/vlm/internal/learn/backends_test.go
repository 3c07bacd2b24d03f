package learn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// The same model in pure Go and on XLA, if available: conversations with images,
// continued once, and the gradient of a joint loss. The backends sum in different orders:
// Drift and GradLimit bound the differences. There are few shapes, because XLA compiles
// each of them.
func TestBackendsAgree(t *testing.T) {
	t.Parallel()
	dir := Folder(t, model.Qwen25VL, Object{"num_hidden_layers": 1})
	o := Options{Critic: learn.SharedCritic, CacheTokens: 256, MicroTokens: 256}
	pure := Open(t, dir, o)
	o.Backend = devicetest.Backend()
	other := Open(t, dir, o)
	t.Logf("%s and %s", pure.Dev.Name(), other.Dev.Name())

	image := func(seed uint64) []policy.Message { return Say("<image> left?", Drawing(seed, 24, 24)) }
	played, again := Stories{}, Stories{}
	for _, prompts := range [][]policy.Prompt{
		{{Conversation: 1, Messages: Say("right"), Seed: 1}, {Conversation: 2, Messages: image(1), Seed: 2},
			{Conversation: 3, Messages: image(2), Seed: 3}},
		{{Conversation: 2, Messages: Say("on"), Seed: 4}, {Conversation: 1, Messages: Say("go on"), Seed: 5}},
	} {
		played.Play(t, pure, prompts, policy.Sampling{Temperature: 1, MaxTokens: 12})
		again.Play(t, other, prompts, policy.Sampling{Temperature: 1, MaxTokens: 12})
	}
	for key := range played {
		again[key].RequireLike(t, played[key])
	}

	b := playedBatch(t, pure)
	aim := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}, EntropyCoef: 0.1, KL: "k3",
		KLCoef: 0.1, ValueCoef: 0.5, ValueClip: 0.2}
	var grads []map[string][]float32
	for _, m := range []*Model{pure, other} {
		_, err := m.Accumulate(t.Context(), b, aim)
		require.NoError(t, err)
		grads = append(grads, Read(t, OpenSums(m.Sets.Actor.Open)))
	}
	requireGradients(t, grads[0], grads[1])
}
