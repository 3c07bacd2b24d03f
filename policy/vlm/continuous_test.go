package vlm

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// TestCallsMayOverlap: conversations of several goroutines get what each gets alone, beside calls of the other methods.
// A closed model answers all of them with ErrClosed.
func TestCallsMayOverlap(t *testing.T) {
	t.Parallel()
	dir := vlmtest.Folder(t, model.Llama, nil)
	m, alone := openTiny(t, dir, Options{Continuous: true}), openTiny(t, dir, Options{})
	s := policy.Sampling{Temperature: 1, MaxTokens: 20}
	play := func(m *Model, key uint64) (out []policy.Completion) {
		for turn := range uint64(3) {
			p := policy.Prompt{Conversation: key, Seed: 10*key + turn, Messages: vlmtest.Say("go")}
			_, err := m.Size(p)
			got, failed := m.Generate(t.Context(), []policy.Prompt{p}, s)
			if err != nil || failed != nil || got[0].Err != nil {
				t.Error(err, failed, got)
				return nil
			}
			out = append(out, got[0])
		}
		m.Forget(key)
		return out
	}
	got := make([][]policy.Completion, 6)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = play(m, uint64(i)) })
	}
	wg.Wait()
	for i := range got {
		for turn, want := range play(alone, uint64(i)) {
			requireResponse(t, want, got[i][turn], "")
		}
	}
	require.Empty(t, m.gen.Chats)

	require.NoError(t, m.Close())
	_, err := m.Generate(t.Context(), []policy.Prompt{{Messages: vlmtest.Say("go")}}, s)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, m.Resume(), ErrClosed)
	_, err = m.Size(policy.Prompt{Messages: vlmtest.Say("go")})
	require.ErrorIs(t, err, ErrClosed)
	m.Forget(1)

	for _, o := range []Options{{Devices: 2}, {SameBytes: true}, {Nodes: Nodes{Count: 2}}} {
		o.Continuous = true
		_, err := Check(t.Context(), dir, o)
		testkit.Error(t, err, ErrOption, "Continuous needs one device")
	}
}
