package english

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/reward"
)

var objects = Names{"goal": "target", "target": "target", "hole": "hole", "box": "box", "crate": "box"}

// reads returns what a text states about one goal, two holes and a box, in letters: "tal" is the target
// above and to the left.
func reads(text string) string {
	short := func(s string) string { return (s + "-")[:1] }
	var out []string
	for _, r := range Read(text, objects, []reward.Relation{{Object: "target"}, {Object: "hole"}, {Object: "hole"},
		{Object: "box"}}) {
		out = append(out, r.Object[:1]+short(r.Vertical)+short(r.Horizontal))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// One or more sentences for each rule of the package comment.
func TestEachRuleReadsItsSentences(t *testing.T) {
	for _, c := range golden.Table[[]struct{ Rule, Text, Want string }](t, "rules.yaml") {
		if got := reads(c.Text); got != c.Want {
			t.Errorf("%s: %q states %q, want %q", c.Rule, c.Text, got, c.Want)
		}
	}
}

func TestEachClassHasWords(t *testing.T) {
	have := map[class]bool{}
	for _, list := range lexicon() {
		for _, p := range list {
			have[p.word.class] = true
		}
	}
	for c := dir; c < object; c++ {
		require.True(t, have[c], "%d %s", c, classNames[c])
	}
	require.Len(t, classNames, int(object))
	require.Panics(t, func() { readLexicon("nowhere = x") })
}

func TestPhrasesHaveVariants(t *testing.T) {
	require.ElementsMatch(t, []string{"in a row", "in a row here", "on a row", "on a row here"},
		strings.Split(strings.Join(variants("{in|on} a row[ here]"), ";"), ";"))
	require.Equal(t, []string{"{"}, variants("{"))
}

func TestWordsOfRelationsAreRead(t *testing.T) {
	require.Equal(t, []string{"above", "below", "same", "", ""},
		[]string{Vertical(" North"), Vertical("below"), Vertical("same"), Vertical("left"), Vertical("")})
	require.Equal(t, []string{"left", "right", "same", "", ""},
		[]string{Horizontal("west"), Horizontal("Right"), Horizontal("same"), Horizontal("above"), Horizontal("x y")})
}

func TestTextsOfAnyLengthAreRead(t *testing.T) {
	for _, text := range []string{strings.Repeat("another hole ", 5000), strings.Repeat("999999 holes above me, ", 300),
		strings.Repeat("not left of or ", 3000), strings.Repeat("exactly where i stand ", 9000)} {
		require.LessOrEqual(t, len(Read(text, objects, nil)), maxThings)
	}
}
