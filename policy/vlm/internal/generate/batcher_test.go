package generate_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// openBatcher opens a folder for calls that overlap.
func openBatcher(t *testing.T, dir string, o Options) (*Model, *generate.Batcher) {
	m := Open(t, dir, o)
	m.Gen.Continuous = true
	f := m.Gen.NewBatcher()
	t.Cleanup(f.Close)
	return m, f
}

// ask adds a call of one prompt whose answer goes to done.
func ask(t *testing.T, f *generate.Batcher, p policy.Prompt, o policy.Sampling, done func(policy.Completion)) {
	f.Add(&generate.Call{Context: t.Context(), Prompts: []policy.Prompt{p}, Sampling: o,
		Done: func(out []policy.Completion, err error) {
			require.NoError(t, err)
			require.NoError(t, out[0].Err)
			done(out[0])
		}})
}

// TestConversationsThatOverlapAreAsAlone: each begins while others decode, continues as soon as it has been answered, and
// waits for room, because five rows decode at a time and nine conversations overlap. Some responses are longer than a
// recent segment. Log-probs are those of one pass over the row. Nothing stays on the device.
func TestConversationsThatOverlapAreAsAlone(t *testing.T) {
	o := policy.Sampling{Temperature: 1, MaxTokens: 80}
	for _, family := range []model.Family{model.Qwen25VL, model.Qwen2, model.Qwen35Text} {
		dir := Folder(t, family, nil)
		one := Open(t, dir, Options{MaxRows: 1})
		prompts := Crowd(t, one, one.Cfg.Vision != nil, 9, 3, 80, func(i int) bool { return i%4 == 1 })
		alone := Stories{}
		for next, turn := prompts, 0; turn < 3; next, turn = nextTurn(next), turn+1 {
			for _, p := range next {
				alone.Play(t, one, []policy.Prompt{p}, o)
			}
		}

		m, f := openBatcher(t, dir, Options{MaxRows: 5})
		untouched, _ := m.Dev.Live()
		played := Stories{}
		var begin func(p policy.Prompt, turn int)
		begin = func(p policy.Prompt, turn int) {
			ask(t, f, p, o, func(c policy.Completion) {
				if played[p.Conversation] == nil {
					played[p.Conversation] = &Story{}
				}
				played[p.Conversation].Add(c)
				if turn < 2 {
					begin(nextTurn([]policy.Prompt{p})[0], turn+1)
				}
			})
		}
		for step := 0; step < 3*len(prompts) || !f.Idle(); step++ {
			if step%3 == 0 && step < 3*len(prompts) {
				begin(prompts[step/3], 0)
			}
			f.Step()
		}
		for key, want := range alone {
			played[key].RequireLike(t, want, "%s: conversation %d", family, key)
		}
		requireScored(t, played, m, 1)
		m.Forget(KeysOf(prompts)...)
		f.Close()
		arrays, _ := m.Dev.Live()
		require.Equal(t, untouched, arrays, family)
	}
}

// TestWhatDoesNotFitWaits: a call that samples otherwise, and one that continues a conversation of a call that is not
// answered. A cancelled call ends its conversations, and disturbs no other; a conversation that is forgotten
// while it decodes ends with its call. A bad call is answered with its error.
func TestWhatDoesNotFitWaits(t *testing.T) {
	m, f := openBatcher(t, Folder(t, model.Qwen2, nil), Options{})
	o, greedy := policy.Sampling{Temperature: 1, MaxTokens: 12}, policy.Sampling{MaxTokens: 3}
	prompts := Crowd(t, Open(t, Folder(t, model.Qwen2, nil), Options{}), false, 4, 12, 12, func(int) bool { return false })
	var order []string
	note := func(what string) func(policy.Completion) {
		return func(policy.Completion) { order = append(order, what) }
	}
	ctx, cancel := context.WithCancel(t.Context())
	ask(t, f, prompts[0], o, note("first"))
	f.Add(&generate.Call{Context: ctx, Prompts: prompts[1:2], Sampling: o, Done: func(_ []policy.Completion, err error) {
		require.ErrorIs(t, err, context.Canceled)
		order = append(order, "cancelled")
	}})
	ask(t, f, prompts[2], o, note("joined"))
	f.Step()
	ask(t, f, nextTurn(prompts[:1])[0], o, note("continued"))
	ask(t, f, prompts[3], greedy, note("greedy"))
	f.Step()
	f.Forget(2)
	cancel()
	for !f.Idle() {
		f.Step()
	}
	require.Equal(t, []string{"cancelled", "first", "joined", "continued", "greedy"}, order)
	require.Contains(t, m.Gen.Chats, uint64(0))
	require.NotContains(t, m.Gen.Chats, uint64(1), "cancelled")
	require.NotContains(t, m.Gen.Chats, uint64(2), "forgotten")

	f.Add(&generate.Call{Context: t.Context(), Prompts: nextTurn(prompts[:1]), Sampling: policy.Sampling{Temperature: -1},
		Done: func(_ []policy.Completion, err error) { require.ErrorIs(t, err, policy.ErrSampling) }})
	f.Step()
	require.True(t, f.Idle())
	require.Contains(t, m.Gen.Chats, uint64(0), "a call that has not begun ends no conversation")
}
