package words

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/reward"
)

func TestScoreIsTheShareOfWordsInPlace(t *testing.T) {
	const truth = "goal up right"
	for text, want := range map[string]float64{
		truth: 1, " goal\tup  right\n": 1, "goal up left": 2.0 / 3, "up goal right": 1.0 / 3,
		"": 0, "goal up": 0, "goal up right now": 0, "Goal Up Right": 0, strings.Repeat("goal up right ", 50): 0,
	} {
		require.InDelta(t, want, Score(text, truth), 1e-12, "%q", text)
	}
	require.Zero(t, Score("", ""))
	long := strings.Repeat("a ", maxWords)
	require.Equal(t, 1.0, Score(long, long))
	require.Zero(t, Score(long+"a", long))
}

func TestSentences(t *testing.T) {
	require.Equal(t, "['Up', 'Down']", List([]string{"Up", "Down"}))
	require.Equal(t, "[]", List(nil))
	require.Equal(t, "1 move", Plural(1, "move"))
	require.Equal(t, "3 moves", Plural(3, "move"))
	require.Equal(t, "up same", DirectionText(reward.Relate("", -1, 0)))
	require.Equal(t, "down left", DirectionText(reward.Relate("", 1, -4)))
	p, err := reward.NewParser("no_think", reward.ParserOptions{Dialect: reward.LiteNavigation})
	require.NoError(t, err)
	require.Equal(t, "Answer in this form: <action>…</action> where <action> holds your moves.", Format(p))
}
