package prompts

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/options"
)

func TestLevelsAreShownWithTheMovesThatLedThere(t *testing.T) {
	show := func(o options.Level, l Level) string {
		l.Noun = "pond"
		return new(Set).Level(&o, l, func() string { return "Format." })
	}
	next, brief := options.Level{}, options.Level{}
	next.Rules, brief.Prompt = env.Next, options.Brief
	drawn, moved := Level{Shown: "~o~", First: true}, Level{Shown: "~o~", Moved: []string{"Up", "Hop"}, Turn: 2}
	require.Equal(t, "This is the pond:\n~o~\nWhat do you do?", show(next, drawn))
	require.Equal(t, "Moves made: ['Up', 'Hop']. This is the pond now:\n~o~\nWhat do you do?", show(next, moved))
	require.Equal(t, "~o~\nTurn 2", show(brief, moved))
	require.Equal(t, "<image>Turn 2", show(brief, Level{Shown: env.ImageMark, Turn: 2}))
}
