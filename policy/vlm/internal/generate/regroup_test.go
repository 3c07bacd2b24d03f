package generate_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// nextTurn returns the prompts of another turn of the conversations.
func nextTurn(prompts []policy.Prompt) []policy.Prompt {
	out := slices.Clone(prompts)
	for i := range out {
		out[i].Messages, out[i].MaxTokens, out[i].Seed = Say("on"), 5, out[i].Seed+7
	}
	return out
}

// The long response is flushed to its session while it is alone, and all
// conversations continue afterwards with everything in their caches.
func TestLongResponsesContinueAlone(t *testing.T) {
	o := policy.Sampling{Temperature: 1, MaxTokens: 70}
	for _, family := range []model.Family{model.Qwen25VL, model.Qwen2, model.Qwen35Text} {
		dir := Folder(t, family, nil)
		one := Open(t, dir, Options{MaxRows: 1})
		prompts := Crowd(t, one, one.Cfg.Vision != nil, 8, 3, 70, func(i int) bool { return i == 5 })
		alone := Stories{}
		for _, p := range prompts {
			alone.Play(t, one, []policy.Prompt{p}, o)
		}
		require.False(t, Regrouped(one.Net), "one row cannot be separated")

		m := Open(t, dir, Options{})
		var first []policy.Completion
		for again := range 2 {
			played := Stories{}
			out := played.Play(t, m, prompts, o)
			require.True(t, Regrouped(m.Net))
			if again == 0 {
				first = out
			}
			require.Equal(t, first, out, "bit for bit")
			for i, p := range prompts {
				played[p.Conversation].RequireLike(t, alone[p.Conversation], "%s: conversation %d", family, i)
			}
			next := nextTurn(prompts)
			for range 2 {
				played.Play(t, m, next, o)
				next = nextTurn(next)
			}
			require.Greater(t, len(played), 4)
			requireScored(t, played, m, 1)
			m.Forget(KeysOf(prompts)...)
		}
		arrays, _ := m.Dev.Live()
		untouched, _ := Open(t, dir, Options{}).Dev.Live()
		require.Equal(t, untouched, arrays)
	}
}

// With room for four rows, waiting rows begin while a long response is still being
// generated.
func TestWaitingConversationsTakeFreedRows(t *testing.T) {
	o := policy.Sampling{Temperature: 1, MaxTokens: 50}
	dir := Folder(t, model.Qwen2, nil)
	one := Open(t, dir, Options{MaxRows: 1})
	prompts := Crowd(t, one, one.Cfg.Vision != nil, 8, 4, 50, func(i int) bool { return i == 2 || i > 4 })
	alone := Stories{}
	for _, p := range prompts {
		alone.Play(t, one, []policy.Prompt{p}, o)
	}
	m := Open(t, dir, Options{MaxRows: 4})
	var order []int
	out, err := m.Gen.Stream(t.Context(), prompts, o, func(prompt int, _ int32) { order = append(order, prompt) })
	require.NoError(t, err)
	require.Len(t, m.Gen.Batches, 3)
	for _, i := range []int{4, 6} {
		require.Contains(t, order[slices.Index(order, i):], 2, "%d waits, and begins before the long response ends", i)
	}
	played := Stories{}
	for i, p := range prompts {
		require.NoError(t, out[i].Err)
		played[p.Conversation] = &Story{}
		played[p.Conversation].Add(out[i])
		played[p.Conversation].RequireLike(t, alone[p.Conversation], "conversation %d", i)
	}
	for range 2 {
		played.Play(t, m, nextTurn(prompts), o)
	}
	requireScored(t, played, m, 1)
	m.Forget(KeysOf(prompts)...)
	require.Empty(t, m.Gen.Batches)
}

// A call that fails at any point, also while rows are in a gathered batch, does not
// affect other conversations, and leaks no arrays.
func TestFailedCallsDoNotAffectOtherConversations(t *testing.T) {
	t.Parallel()
	o := policy.Sampling{Temperature: 1, MaxTokens: 40}
	dir := Folder(t, model.Qwen2, nil)
	m := Open(t, dir, Options{MaxRows: 8})
	before, _ := m.Dev.Live()
	prompts := Crowd(t, m, m.Cfg.Vision != nil, 12, 3, 40, func(i int) bool { return i == 3 || i > 8 })
	rest, part := nextTurn(prompts[:2]), nextTurn(prompts[2:])
	for i := range part {
		part[i].MaxTokens = prompts[2+i].MaxTokens
	}
	alone := Stories{}
	alone.Play(t, m, prompts, policy.Sampling{Temperature: 1, MaxTokens: 3})
	alone.Play(t, m, rest, o)
	m.Forget(KeysOf(prompts)...)
	for i := range prompts {
		prompts[i].MaxTokens = 0
	}
	done := false
	for looks := 0; !done; looks += 3 {
		played := Stories{}
		played.Play(t, m, prompts, policy.Sampling{Temperature: 1, MaxTokens: 3})
		_, err := m.Generate(Countdown(t.Context(), looks), part, o)
		if done = err == nil; !done {
			require.Len(t, m.Gen.Chats, len(rest), "after %d looks", looks)
		}
		played.Play(t, m, rest, o)
		for _, p := range rest {
			played[p.Conversation].RequireLike(t, alone[p.Conversation], "after %d looks", looks)
		}
		m.Forget(KeysOf(prompts)...)
		after, _ := m.Dev.Live()
		require.Equal(t, before, after, "after %d looks", looks)
	}
	require.True(t, Regrouped(m.Net))
}

// The rule in numbers: a step costs 8 and one for each row, a switch 10 steps.
func TestRowsRegroupWhereItPays(t *testing.T) {
	c := &generate.Scheduler{Fixed: 8, Settings: generate.Settings{MaxRows: 32}}
	// decoding has rows of which some have written age of at most most tokens.
	decoding := func(rows, live, age, most int) *generate.DecodeBatch {
		f := c.NewDecodeBatch(&generate.Session{Rows: make([]*generate.Conversation, rows)})
		for row := range live {
			p := f.Assign(row, &generate.Turn{Max: most})
			p.Reply.Tokens = make([]int32, age)
		}
		return f
	}
	for _, test := range []struct {
		rows, live, age, most int
		want                  bool
	}{
		{8, 1, 22, 100, false}, // 22·(16−9) < 10·16
		{8, 1, 23, 100, true},
		{8, 1, 90, 100, false}, // 10 steps are left
		{8, 5, 50, 100, false}, // the bucket stays
		{8, 4, 50, 100, true},
		{8, 8, 50, 100, false},
		{32, 1, 13, 100, true},
		{1, 1, 50, 100, false},
	} {
		require.Equal(t, test.want, c.ShouldShrink(decoding(test.rows, test.live, test.age, test.most)), "%+v", test)
	}
	fresh := func(live, most int) *generate.DecodeBatch { return decoding(generate.RowBucket(live), live, 0, most) }
	for name, test := range map[string]struct {
		f       *generate.DecodeBatch
		waiting []*generate.DecodeBatch
		want    int
	}{
		"no batch waits":        {decoding(8, 4, 50, 100), nil, 0},
		"the first goes anyway": {nil, []*generate.DecodeBatch{fresh(32, 100), fresh(32, 100)}, 1},
		"small ones together": {nil, []*generate.DecodeBatch{fresh(1, 100), fresh(1, 100), fresh(1, 100),
			fresh(1, 100)}, 4},
		"short ones on their own": {nil, []*generate.DecodeBatch{fresh(1, 8), fresh(1, 8)}, 1},
		"no room":                 {decoding(32, 17, 50, 100), []*generate.DecodeBatch{fresh(16, 100)}, 0},
		"room": {decoding(32, 16, 50, 100), []*generate.DecodeBatch{fresh(16, 100), fresh(16, 100)},
			1},
		"hardly any time is left":     {decoding(32, 16, 98, 100), []*generate.DecodeBatch{fresh(16, 100)}, 0},
		"a bucket that is too large":  {decoding(16, 15, 50, 100), []*generate.DecodeBatch{fresh(2, 100)}, 0},
		"places that would stay free": {decoding(16, 14, 50, 100), []*generate.DecodeBatch{fresh(2, 100)}, 1},
	} {
		require.Equal(t, test.want, c.CountToMerge(test.f, test.waiting), name)
	}
	require.Equal(t, 50, decoding(1, 1, 50, 101).ExpectedSteps(), "as long again")
}
