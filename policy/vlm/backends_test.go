package vlm

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// The same model in pure Go and on XLA, if available: conversations with images,
// continued once, and the gradient of a joint loss. The backends sum in different orders:
// rowDrift and vlmtest.GradLimit bound the differences. There are few shapes, because XLA compiles
// each of them.
func TestBackendsAgree(t *testing.T) {
	t.Parallel()
	dir := vlmtest.Folder(t, model.Qwen25VL, vlmtest.Object{"num_hidden_layers": 1})
	o := Options{Critic: SharedCritic, CacheTokens: 256, MicroTokens: 256}
	pure := openTiny(t, dir, o)
	o.Backend = vlmtest.Backend()
	other := openTiny(t, dir, o)
	t.Logf("%s and %s", pure.Backend(), other.Backend())

	image := func(seed uint64) []policy.Message { return vlmtest.Say("<image> left?", vlmtest.Drawing(seed, 24, 24)) }
	played, again := vlmtest.Stories{}, vlmtest.Stories{}
	for _, prompts := range [][]policy.Prompt{
		{{Conversation: 1, Messages: vlmtest.Say("right"), Seed: 1}, {Conversation: 2, Messages: image(1), Seed: 2},
			{Conversation: 3, Messages: image(2), Seed: 3}},
		{{Conversation: 2, Messages: vlmtest.Say("on"), Seed: 4}, {Conversation: 1, Messages: vlmtest.Say("go on"), Seed: 5}},
	} {
		played.Play(t, pure, prompts, policy.Sampling{Temperature: 1, MaxTokens: 12})
		again.Play(t, other, prompts, policy.Sampling{Temperature: 1, MaxTokens: 12})
	}
	for key := range played {
		again[key].RequireLike(t, played[key])
	}

	b := partsOf(pure).PlayedBatch(t)
	aim := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}, EntropyCoef: 0.1, KL: "k3",
		KLCoef: 0.1, ValueCoef: 0.5, ValueClip: 0.2}
	var grads []map[string][]float32
	for _, m := range []*Model{pure, other} {
		_, err := m.Accumulate(t.Context(), b, aim)
		require.NoError(t, err)
		grads = append(grads, vlmtest.Read(t, vlmtest.OpenSums(m.sets.Actor.Open)))
	}
	vlmtest.RequireGradients(t, grads[0], grads[1])
}

// The first round allocates permanent arrays, such as moments; later rounds must not
// change the numbers of arrays and goroutines.
func TestNothingLeaksRoundAfterRound(t *testing.T) {
	m := newTiny(t, model.Qwen3VL, Options{Critic: SeparateCritic, Reference: true, MicroTokens: 64})
	rows, want := partsOf(m).FourRows(t)
	var arrays, bytes int64
	goroutines := 0
	for round := range 3 {
		vlmtest.PlayOn(t, m, m.ReadsImages(), policy.Sampling{Temperature: 1, MaxTokens: 6})
		m.Forget(1, 2)
		_, err := m.Score(t.Context(), &rows, want, everything, 1)
		require.NoError(t, err)
		partsOf(m).Train(t, 1)
		require.NoError(t, m.Tie(t.Context()))
		require.NoError(t, m.Restore(t.Context(), save(t, m)))
		n, b := m.dev.Live()
		if round == 0 {
			arrays, bytes, goroutines = n, b, runtime.NumGoroutine()
			continue
		}
		require.Equal(t, []int64{arrays, bytes}, []int64{n, b}, "round %d", round)
		for tries := 0; runtime.NumGoroutine() > goroutines; tries++ { // finished workers may not have exited yet
			require.Less(t, tries, 10000, "round %d", round)
			time.Sleep(time.Millisecond)
		}
	}
}
