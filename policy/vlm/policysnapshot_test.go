package vlm

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// TestPolicySnapshotsDoNotChange: a policy snapshot samples what the model
// would have sampled when it was created, to the last bit, also while the model is
// trained at the same time. All that was copied is freed.
func TestPolicySnapshotsDoNotChange(t *testing.T) {
	o := policy.Sampling{Temperature: 1, MaxTokens: 8}
	for name, lora := range map[string]*LoRA{"weights": nil,
		"adapters": {Rank: 2, Alpha: 4, Targets: []string{"q_proj", "down_proj"}}} {
		m := newTiny(t, model.Qwen25VL, Options{Critic: SharedCritic, LoRA: lora})
		partsOf(m).Train(t, 1)
		want := vlmtest.Ask(t, m, o, vlmtest.Asks())
		_, before := m.dev.Live()

		l, err := m.SnapshotPolicy(t.Context())
		require.NoError(t, err)
		_, held := m.dev.Live()
		size := 0
		for _, g := range m.sets.Actor.Weights.Groups {
			size += g.Size()
		}
		if lora == nil {
			require.Equal(t, int64(4*size), held-before, "one more copy of the weights")
		} else {
			require.Less(t, held-before, int64(4*size/2), "what is not trained is shared")
		}

		var got []policy.Completion
		var wg sync.WaitGroup
		wg.Go(func() { got, err = l.Generate(t.Context(), vlmtest.Asks(), o) })
		partsOf(m).Train(t, 2)
		wg.Wait()
		require.NoError(t, err)
		require.Same(t, m.gen.Counted, l.(*policySnapshot).m.gen.Counted, "the model reports both")
		for i, p := range vlmtest.Asks() {
			require.Equal(t, want[p.Conversation], got[i], "%s: conversation %d", name, p.Conversation)
		}
		for key, c := range vlmtest.Ask(t, m, o, vlmtest.Asks()) {
			require.NotEqual(t, want[key].LogProbs, c.LogProbs, "the model itself has moved on")
		}
		l.Forget(vlmtest.KeysOf(vlmtest.Asks())...)
		n, err := l.(policy.Counter).Count(vlmtest.Asks()[0])
		require.NoError(t, err)
		require.Len(t, want[1].Context, n)

		require.NoError(t, l.Close())
		require.NoError(t, l.Close(), "closing twice does nothing")
		_, after := m.dev.Live()
		require.Equal(t, before, after)
		_, err = l.Generate(t.Context(), vlmtest.Asks(), o)
		require.ErrorIs(t, err, ErrClosed)
		partsOf(m).Train(t, 1)
		require.NoError(t, m.Close())
		_, err = m.SnapshotPolicy(t.Context())
		require.ErrorIs(t, err, ErrClosed)
	}
}
