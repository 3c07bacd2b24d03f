package generate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
	"vagen/policy/vlm/tokenizer"
)

func TestThinkingIsClosedAtItsLimit(t *testing.T) {
	for _, family := range []model.Family{model.Qwen25VL, model.Llama} {
		dir := Folder(t, family, nil)
		o := policy.Sampling{Temperature: 1, MaxTokens: 24}
		prompts := Asks()
		if family == model.Llama {
			prompts = []policy.Prompt{Asks()[0], Asks()[2]}
		}
		free := Ask(t, Open(t, dir, Options{}), o, prompts)
		o.Thinking = policy.Thinking{Tokens: 100, Close: "</t>"}
		require.Equal(t, free, Ask(t, Open(t, dir, Options{}), o, prompts), "a limit that is not reached changes nothing")

		o.Thinking.Tokens = 7
		m := Open(t, dir, Options{})
		closing, err := m.Text.Tok.Encode("</t>")
		require.NoError(t, err)
		require.Greater(t, len(closing), 1)
		played := Stories{}
		forced := 0
		for i, c := range played.Play(t, m, prompts, o) {
			key := prompts[i].Conversation
			n := min(7, len(free[key].Tokens))
			require.Equal(t, free[key].Tokens[:n], c.Tokens[:n], "what comes before the limit")
			RequireNear(t, free[key].LogProbs[:n], c.LogProbs[:n], Drift, "log-probs before the limit")
			if len(free[key].Tokens) <= 7 {
				continue
			}
			require.Equal(t, closing, c.Tokens[7:7+len(closing)])
			for k, at := range c.Forced {
				require.Equal(t, 7+k, at)
			}
			require.Len(t, c.Forced, len(closing))
			require.Equal(t, 1, strings.Count(c.Text, "</t>"))
			forced++
		}
		require.Positive(t, forced)
		requireScored(t, played, m, 1) // the log-probs of forced tokens are the policy's, too
		played.Play(t, m, []policy.Prompt{{Conversation: 1, Messages: Say("on"), Seed: 9}}, o)
		requireScored(t, played, m, 1)
	}
}

// The count starts after the opening tag, and again after the next one.
func TestThinkersCountBetweenTags(t *testing.T) {
	tok, err := tokenizer.NewTiny([]string{"<think>"})
	require.NoError(t, err)
	write := func(text string, limits policy.Thinking) (string, []int) {
		th, err := generate.NewThinkingLimiter(tok, limits, "")
		require.NoError(t, err)
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		var out, forced []int
		for len(ids) > 0 {
			id := th.Next()
			if id < 0 {
				id, ids = ids[0], ids[1:]
			}
			if th.Add(id) {
				forced = append(forced, len(out))
			}
			out = append(out, int(id))
		}
		all := make([]int32, len(out))
		for i, id := range out {
			all[i] = int32(id)
		}
		return tok.Decode(all, tokenizer.KeepSpecial), forced
	}
	limits := policy.Thinking{Tokens: 3, Open: "<think>", Close: "</think>"}
	for text, want := range map[string]string{
		"abcdef":                                  "abcdef",
		"ab<think>cd</think>efghi":                "ab<think>cd<</think>/think>efghi", // the tag's own letters count
		"ab<think>cdefgh":                         "ab<think>cde</think>fgh",
		"<think>1234<think>56789":                 "<think>123</think>4<think>567</think>89",
		"<think>" + strings.Repeat("x", 3) + "yz": "<think>xxx</think>yz",
	} {
		got, forced := write(text, limits)
		require.Equal(t, want, got)
		require.Len(t, forced, len("</think>")*strings.Count(want, "</think>"))
		require.True(t, slices.IsSorted(forced))
	}
	got, _ := write("abcdef", policy.Thinking{Tokens: 2, Close: "#"})
	require.Equal(t, "ab#cdef", got, "without an opening tag a response begins inside")
	got, _ = write("a#bcdef", policy.Thinking{Tokens: 2, Close: "#"})
	require.Equal(t, "a#bcdef", got)
}

// A limiter leaves tokens to the model exactly as long as none of them can be forced.
func TestThinkersLeaveTokensBeforeTheLimit(t *testing.T) {
	tok, err := tokenizer.NewTiny(nil)
	require.NoError(t, err)
	require.True(t, (*generate.ThinkingLimiter)(nil).Leaves(8))
	for _, c := range []struct {
		limits policy.Thinking
		Text   string
		want   int // tokens left to the model, at most 8
	}{
		{policy.Thinking{Tokens: 5, Close: "#"}, "", 5},
		{policy.Thinking{Tokens: 5, Close: "#"}, "abc", 2},
		{policy.Thinking{Tokens: 5, Close: "##"}, "abcde", 0},
		{policy.Thinking{Tokens: 5, Close: "##"}, "abcde#", 0},
		{policy.Thinking{Tokens: 5, Close: "#"}, "abcde#", 8},
		{policy.Thinking{Tokens: 5, Close: "#"}, "ab#", 8},
		{policy.Thinking{Tokens: 3, Open: "<", Close: "#"}, "abc", 4},
		{policy.Thinking{Tokens: 3, Open: "<", Close: "#"}, "abc<", 3},
	} {
		th, err := generate.NewThinkingLimiter(tok, c.limits, "")
		require.NoError(t, err)
		ids, err := tok.Encode(c.Text)
		require.NoError(t, err)
		for _, id := range ids {
			th.Add(id)
		}
		for n := 1; n <= 8; n++ {
			require.Equal(t, n <= c.want, th.Leaves(n), "%+v, %q, %d tokens", c.limits, c.Text, n)
		}
	}
}

// Rows that open with the same context share its computation; each response is the one
// that the row would have alone.
func TestGroupsReadTheirPromptOnce(t *testing.T) {
	for _, family := range []model.Family{model.Qwen25VL, model.Qwen3VL, model.Qwen2} {
		dir := Folder(t, family, nil)
		var prompts []policy.Prompt
		for g := range uint64(2) {
			for k := range uint64(4) {
				p := policy.Prompt{Conversation: 10*g + k, Messages: Say(fmt.Sprint("go ", g)), Seed: 100*g + k}
				if family != model.Qwen2 {
					p.Messages = Say(fmt.Sprint("look", strings.Repeat("!", int(g)), " <image>"), Drawing(g, 16, 16))
				}
				prompts = append(prompts, p)
			}
		}
		o := policy.Sampling{Temperature: 1, MaxTokens: 10}
		one := Open(t, dir, Options{})
		want := map[uint64]policy.Completion{}
		for _, p := range prompts {
			want[p.Conversation] = Ask(t, one, o, []policy.Prompt{p})[p.Conversation]
		}
		m := Open(t, dir, Options{})
		played := Stories{}
		texts := map[string]bool{}
		for i, c := range played.Play(t, m, prompts, o) {
			key := prompts[i].Conversation
			require.Equal(t, want[key].Tokens, c.Tokens, "%s: conversation %d", family, key)
			RequireNear(t, want[key].LogProbs, c.LogProbs, Drift, "log-probs")
			texts[c.Text] = true
		}
		require.Greater(t, len(texts), 4, "seeds differ")
		for round := range 2 {
			var more []policy.Prompt
			for _, p := range prompts {
				more = append(more, policy.Prompt{Conversation: p.Conversation, Messages: Say("on"), Seed: p.Seed + 7 +
					uint64(round)})
			}
			played.Play(t, m, more, o)
		}
		require.Greater(t, len(played), 2)
		requireScored(t, played, m, 1) // also what follows in later turns
	}
}

func TestSharedPromptsAreReadOncePerGroup(t *testing.T) {
	same := func(shared ...string) *generate.DecodeBatch {
		sequences := make([]*generate.Sequence, len(shared))
		for i, s := range shared {
			if s != "-" {
				sequences[i] = &generate.Sequence{Turn: &generate.Turn{Shared: s}}
			}
		}
		return &generate.DecodeBatch{Session: &generate.Session{}, Sequences: sequences}
	}
	p := same("a", "b", "a", "a", "b", "b", "-", "-").PlanContexts()
	require.Equal(t, []int{0, 1}, p.Readers)
	require.Equal(t, []int{0, 1, 0, 0, 1, 1, 0, 0}, p.Index)
	p = same("a", "b", "c", "a", "b", "c", "c", "c").PlanContexts()
	require.Equal(t, []int{0, 1, 2, -1}, p.Readers, "up to a bucket")
	p = same("a", "b", "c", "d", "e", "e", "e", "-").PlanContexts()
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, -1}, p.Readers, "too few are shared")
	require.False(t, p.SharesContexts())
	p = same("", "", "", "").PlanContexts()
	require.False(t, p.SharesContexts())
}
