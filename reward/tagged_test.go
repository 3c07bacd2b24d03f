package reward

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAFormatOfYourOwnIsReadAsTheOwnOnes: with the sections of a format of this package, the
// responses parse as in that format.
func TestAFormatOfYourOwnIsReadAsTheOwnOnes(t *testing.T) {
	for _, d := range []Dialect{Lite, Legacy} {
		own, err := NewTagged("mine", []string{SectionThink, SectionAnswer}, ParserOptions{Dialect: d, MaxActions: 2})
		require.NoError(t, err)
		known, err := NewParser("free_think", ParserOptions{Dialect: d, MaxActions: 2})
		require.NoError(t, err)
		for _, text := range []string{
			"<think>a</think><answer>Up, Down, Up</answer>", "x <think>a</think> <answer>Up</answer> y", "<answer>Up</answer>",
			"<think>a</think><answer></answer>", "", "<image><think><think></think><answer>a</answer>",
		} {
			require.Equal(t, known.Parse(text), own.Parse(text), "%s: %s", d, text)
			require.Equal(t, known.Canonical(known.Parse(text)), own.Canonical(own.Parse(text)), "%s: %s", d, text)
		}
	}
}

func TestFormatsThatCannotBeReadAreRefused(t *testing.T) {
	for want, c := range map[string]struct {
		name     string
		sections []string
		dialect  Dialect
	}{
		`format "": it has no name`:                    {"", []string{"answer"}, Lite},
		`the lite dialect has a format of this name`:   {"wm", []string{"answer"}, ""},
		`dialect "next": unknown response format`:      {"a", []string{"answer"}, Next},
		`0 sections, must be 1 to 5`:                   {"a", nil, Lite},
		`6 sections, must be 1 to 5`:                   {"a", []string{"a", "b", "c", "d", "e", "answer"}, Lite},
		`sections ["plan"]: "answer" is missing`:       {"a", []string{"plan"}, Lite},
		`section "answer": must be a tag`:              {"a", []string{"answer", "answer"}, Lite},
		`section "Plan>": must be a tag of lower-case`: {"a", []string{"Plan>", "answer"}, Lite},
	} {
		_, err := NewTagged(c.name, c.sections, ParserOptions{Dialect: c.dialect})
		require.ErrorContains(t, err, want)
	}
	_, err := NewTagged("a", []string{"answer"}, ParserOptions{MaxActions: -1})
	require.ErrorContains(t, err, "max_actions is -1")
}

// TestEverySectionOfAFormatOfYourOwnIsKept: whatever names it has.
func TestEverySectionOfAFormatOfYourOwnIsKept(t *testing.T) {
	sections := []string{"before", "answer", "after"}
	p, err := NewTagged("mine", sections, ParserOptions{})
	require.NoError(t, err)
	require.Equal(t, sections, p.Sections())
	text := p.Compose(func(section string) string { return "x " + section })
	require.Equal(t, "<before>x before</before><answer>x answer</answer><after>x after</after>", text)
	r := p.Parse(text)
	require.Equal(t, map[string]string{"before": "x before", "answer": "x answer", "after": "x after"}, r.Sections)
	require.Equal(t, text, p.Canonical(r))
}
