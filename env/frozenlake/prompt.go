package frozenlake

import (
	"fmt"
	"strings"

	"vagen/env"
	"vagen/env/internal/options"
	"vagen/env/internal/prompts"
	"vagen/env/internal/words"
	"vagen/reward"
)

// The brief prompt keeps rows short and the vocabulary small. Its words are those
// that tiny models are given in the examples.
const briefSystem = "Reach the goal avoid holes."

// placeholders are those of the observations in templates of the user.
var placeholders = prompts.Names{Observation: []string{prompts.Action, prompts.Turn}}

// ownSystem says what the world is and how to act in it.
func (e *Env) ownSystem() string {
	if e.o.Prompt == options.Brief {
		return briefSystem
	}
	var b strings.Builder
	b.WriteString("You walk on a frozen lake. Cross it from where you stand to the goal, and do not fall into a hole.\n\n")
	if e.o.RenderMode == env.Vision {
		b.WriteString("Each picture shows the lake from above. You are the red figure. The goal is a green mat with a flag, " +
			"holes are dark discs of water, everything else is ice that you can walk on.")
		if e.o.Cracks {
			b.WriteString(" A dark blue edge of a tile means that a hole lies beyond it, an edge of sand is the shore.")
		}
	} else {
		onGoal := "V"
		if e.o.Rules == env.Legacy {
			onGoal = "√"
		}
		fmt.Fprintf(&b, "The lake is drawn with one symbol for a cell: P is you, _ is ice that you can walk on, O is a hole, "+
			"G is the goal, X is you in a hole and %s is you on the goal.", onGoal)
	}
	fmt.Fprintf(&b, "\n\nMoves are Left, Down, Right and Up; each takes you one cell, or nowhere at the shore. "+
		"Give at most %s in a turn, with %q between them.", words.Plural(e.o.MaxActions, "move"), e.o.ActionSep)
	if e.o.Slippery || e.o.SlipProb > 0 {
		b.WriteString(" The ice is slippery: a move sometimes takes you to one of its sides instead.")
	}
	b.WriteString(" The episode ends when you reach the goal or fall into a hole.\n\n")
	return b.String()
}

// observationText puts a drawing of the lake, or the mark of its picture, into
// the words of a turn.
func (e *Env) observationText(lake string, moved []string, first bool) string {
	l := prompts.Level{Noun: "lake", Shown: lake, Moved: moved, Turn: e.turn + 1, First: first}
	return e.Texts.Level(&e.o.Level, l, e.FormatText)
}

// ownFormat describes the response's format, and in which words or notation observations and predictions
// are wanted.
func (e *Env) ownFormat() string {
	text := words.Format(e.Parser())
	switch {
	case options.Positional(&e.o.Level):
		return text + words.Positions("the goal, called target,", "each hole")
	case !options.Describing(&e.o.Level) && strings.HasSuffix(e.o.PromptFormat, "_structured"):
		return text + words.Places("target", "hole")
	case !options.Describing(&e.o.Level):
		return text + words.Relations(e.o.PromptFormat, "target", "hole")
	case len(e.Parser().Sections()) < 3:
		return text
	}
	text += " Say where the goal is from you as: goal up|down|same left|right|same."
	if e.o.DescribeHoles {
		text += " In the observation, add: free, and then for the left, below, right and above one word each: " +
			"the move if it is safe, hole, or none at the shore."
	}
	return text
}

// example is a response in the format, with an answer that uses the separator.
func (e *Env) example() string {
	moves, at := Down.String(), exampleLake.Move(exampleLake.Start(), Down)
	if e.o.MaxActions > 1 {
		moves = Down.String() + e.o.ActionSep + Right.String()
		at = exampleLake.Move(at, Right)
	}
	return e.Parser().Compose(func(section string) string {
		switch section {
		case reward.SectionAnswer:
			return moves
		case reward.SectionObservation:
			return e.exampleState(exampleLake.Start(), e.o.DescribeHoles,
				"The goal is below me, to the right. A hole is two cells to my right.")
		case reward.SectionPrediction:
			return e.exampleState(at, false, "I will be closer to the goal.")
		}
		return "The goal is below me to the right and the way there is free."
	})
}

// exampleState says the state with the player at a cell as the format wants it,
// or in other words when it leaves that open.
func (e *Env) exampleState(at Cell, holes bool, otherwise string) string {
	switch {
	case options.Describing(&e.o.Level):
		return exampleLake.describe(at, holes)
	case strings.HasSuffix(e.o.PromptFormat, "_symbolic"):
		return exampleLake.Text(e.o.Rules, at)
	case strings.HasSuffix(e.o.PromptFormat, "_structured"):
		return exampleLake.places(at)
	case options.Positional(&e.o.Level):
		return words.RelationsText(exampleLake.relations(at))
	}
	return otherwise
}

// exampleLake is the level in the example of the system prompt.
var exampleLake = words.Must(Parse([]string{"SFH", "FFF", "FFG"}))
