package reward

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Reasoning that a service returned apart is in front of the answer, in the tags of the format.
func TestReasoningIsPutBackInFrontOfTheAnswer(t *testing.T) {
	const state = "<perception>a</perception><reasoning>b</reasoning><prediction>c</prediction>"
	for _, c := range []struct {
		dialect        Dialect
		format, answer string
		whole          bool
	}{
		{Lite, "free_think", "<answer>Up</answer>", true},
		{Legacy, "free_think", "\n\n<answer>Up</answer>", true},
		{Lite, "wm", "<observation>a</observation><think>b</think><answer>Up</answer><prediction>c</prediction>", false},
		{Lite, "answer", "<answer>Up</answer>", true},
		{Legacy, "no_think", "<answer>Up</answer>", false},
		{LiteNavigation, "no_think", "<action>Up</action>", false},
		{Next, "free_think", "<answer>Up</answer>", true},
		{Next, "wm", state + "<answer>Up</answer>", false},
		{Next, "wm_think", state + "<answer>Up</answer>", true},
	} {
		p, err := NewParser(c.format, ParserOptions{Dialect: c.dialect})
		require.NoError(t, err)
		want := c.answer
		if c.whole {
			want = "<think>\nhm\n</think>" + want
		}
		got := p.Rejoin("\nhm\n", c.answer)
		require.Equal(t, want, got, "%s %s", c.dialect, c.format)
		require.True(t, p.Parse(got).FormatCorrect, "%s %s", c.dialect, c.format)
	}
	grounding, err := NewParser("grounding", ParserOptions{Dialect: Legacy})
	require.NoError(t, err)
	r := grounding.Parse(
		grounding.Rejoin("<observation>a</observation><reasoning>b</reasoning>", "<answer>Up</answer>"),
	)
	require.True(t, r.FormatCorrect)
	require.Equal(t, "a", r.Sections[SectionObservation])
	require.Equal(t, "<think>hm</think>", (*Parser)(nil).Rejoin("hm", ""))
}
