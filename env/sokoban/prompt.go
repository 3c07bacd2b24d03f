package sokoban

import (
	"fmt"
	"strings"

	"vagen/env"
	"vagen/env/internal/options"
	"vagen/env/internal/prompts"
	"vagen/env/internal/words"
	"vagen/reward"
)

// The brief prompt keeps rows short and the vocabulary small.
const briefSystem = "Push each box onto a target."

// placeholders are those of the observations in templates of the user.
var placeholders = prompts.Names{Observation: []string{prompts.Action, prompts.Turn}}

// ownSystem says what the world is and how to act in it.
func (e *Env) ownSystem() string {
	if e.o.Prompt == options.Brief {
		return briefSystem
	}
	var b strings.Builder
	b.WriteString("You are in a room with boxes. Push every box onto a target. You can push one box at a time and pull none, " +
		"so a box in a corner stays there.\n\n")
	if e.o.RenderMode == env.Vision {
		b.WriteString("Each picture shows the room from above. You are the red figure. Boxes are yellow crates, targets are purple rings, " +
			"a crate on a target is green, and walls are dark.")
		if e.o.Edges {
			b.WriteString(" A dark edge of a tile means that a wall lies beyond it, an orange bar that a crate does.")
		}
	} else {
		b.WriteString("The room is drawn with one symbol for a cell: P is you, X is a box, O is a target, √ is a box on a target, " +
			"S is you on a target, # is wall and _ is free floor.")
	}
	fmt.Fprintf(&b, "\n\nMoves are Up, Down, Left and Right. A move takes you one cell if it is free; if a box is there, "+
		"it pushes the box, provided that the cell beyond is free. Give at most %s in a turn, with %q between them.\n\n",
		words.Plural(e.o.MaxActions, "move"), e.o.ActionSep)
	return b.String()
}

// observationText puts a drawing of the room, or the mark of its picture, into
// the words of a turn.
func (e *Env) observationText(room string, moved []string, first bool) string {
	l := prompts.Level{Noun: "room", Shown: room, Moved: moved, Turn: e.turn + 1, First: first}
	return e.Texts.Level(&e.o.Level, l, e.FormatText)
}

// ownFormat describes the response's format, and in which words or notation observations and predictions
// are wanted.
func (e *Env) ownFormat() string {
	text := words.Format(e.Parser())
	switch {
	case options.Positional(&e.o.Level):
		return text + words.Positions("each target", "each box")
	case e.dictionary():
		return text + words.Places("box", "target")
	case !options.Describing(&e.o.Level):
		return text + words.Relations(e.o.PromptFormat, "target", "box")
	case len(e.Parser().Sections()) < 3:
		return text
	}
	text += " Say for each target and then for each box where it is from you as: target up|down|same left|right|same, " +
		"box up|down|same left|right|same, without commas."
	if e.o.DescribeMoves {
		text += " In the observation, add: free, and then for above, below, left and right one word each: " +
			"the move if you can make it, wall, or stuck for a box that cannot be pushed."
	}
	return text
}

// exampleRoom is the room in the example of the system prompt.
var exampleRoom = words.Must(Parse([]string{"######", "#P___#", "#__X_#", "#____#", "#__O_#", "######"}))

// example is a response in the format, with an answer that uses the separator.
func (e *Env) example() string {
	moves, after := Right.String(), exampleRoom.Clone()
	after.Move(Right)
	if e.o.MaxActions > 1 {
		moves += e.o.ActionSep + Right.String()
		after.Move(Right)
	}
	return e.Parser().Compose(func(section string) string {
		switch section {
		case reward.SectionAnswer:
			return moves
		case reward.SectionObservation:
			return e.exampleState(exampleRoom, e.o.DescribeMoves,
				"The box is below me, to the right. The target is below the box.")
		case reward.SectionPrediction:
			return e.exampleState(after, false, "I will stand nearer to the cell above the box.")
		}
		return "I have to get above the box and push it down."
	})
}

// exampleState says the state as the format wants it, or in other words when it
// leaves that open.
func (e *Env) exampleState(r *Room, moves bool, otherwise string) string {
	switch {
	case options.Describing(&e.o.Level):
		return r.describe(moves)
	case strings.HasSuffix(e.o.PromptFormat, "_symbolic"):
		return r.Text(e.o.Rules)
	case e.dictionary():
		return r.places()
	case strings.HasSuffix(e.o.PromptFormat, "_structured"):
		return words.JSON(r.relations())
	case options.Positional(&e.o.Level):
		return words.RelationsText(r.relations())
	}
	return otherwise
}

// dictionary reports whether sections are to be dictionaries of places. Of the
// structured formats, one of the original requires a list of relations.
func (e *Env) dictionary() bool {
	return !options.Describing(&e.o.Level) && strings.HasSuffix(e.o.PromptFormat, "_structured") &&
		e.o.PromptFormat != "grounding_worldmodeling_structured"
}
