package frozenlake

import (
	"fmt"
	"strconv"
	"strings"

	"vagen/reward"
)

// The brief prompt keeps rows short and the vocabulary small. Its words are those
// that tiny models are given in the examples.
const briefSystem = "Reach the goal avoid holes."

// systemPrompt says what the world is, how to act in it and how to answer.
func (e *Env) systemPrompt() string {
	if e.o.Prompt == Brief {
		return briefSystem
	}
	var b strings.Builder
	b.WriteString("You walk on a frozen lake. Cross it from where you stand to the goal, and do not fall into a hole.\n\n")
	if e.o.RenderMode == Vision {
		b.WriteString("Each picture shows the lake from above. You are the red figure. The goal is a green mat with a flag, " +
			"holes are dark discs of water, everything else is ice that you can walk on.")
		if e.o.Cracks {
			b.WriteString(" A dark blue edge of a tile means that a hole lies beyond it, an edge of sand is the shore.")
		}
	} else {
		onGoal := "V"
		if e.o.Rules == Legacy {
			onGoal = "√"
		}
		fmt.Fprintf(&b, "The lake is drawn with one symbol for a cell: P is you, _ is ice that you can walk on, O is a hole, "+
			"G is the goal, X is you in a hole and %s is you on the goal.", onGoal)
	}
	fmt.Fprintf(&b, "\n\nMoves are Left, Down, Right and Up; each takes you one cell, or nowhere at the shore. "+
		"Give at most %s in a turn, with %q between them.", plural(e.o.MaxActions, "move"), e.o.ActionSep)
	if e.o.Slippery || e.o.SlipProb > 0 {
		b.WriteString(" The ice is slippery: a move sometimes takes you to one of its sides instead.")
	}
	b.WriteString(" The episode ends when you reach the goal or fall into a hole.\n\n")
	b.WriteString(e.formatText())
	if e.o.UseExample {
		b.WriteString("\nFor example:\n")
		b.WriteString(e.example())
	}
	return b.String()
}

// observationText puts a drawing of the lake, or the mark of its picture, into
// the words of a turn.
func (e *Env) observationText(lake string, moved []string, first bool) string {
	var b strings.Builder
	b.Grow(len(lake) + 256)
	if e.o.Prompt == Brief {
		b.WriteString(lake)
		if e.draw == nil {
			b.WriteByte('\n')
		}
		b.WriteString("Turn ")
		b.WriteString(strconv.Itoa(e.turn + 1))
		return b.String()
	}
	if first {
		b.WriteString("This is the lake:\n")
	} else {
		b.WriteString("Moves made: ")
		b.WriteString(pythonList(moved))
		b.WriteString(". This is the lake now:\n")
	}
	b.WriteString(lake)
	b.WriteString("\nWhat do you do?")
	if e.o.Rules == Legacy {
		b.WriteByte('\n')
		b.WriteString(e.formatText())
	}
	return b.String()
}

// sectionHelp says what belongs into each section.
var sectionHelp = map[string]string{
	reward.SectionThink:       "your thoughts",
	reward.SectionObservation: "what you see now",
	reward.SectionReasoning:   "why you choose your moves",
	reward.SectionAnswer:      "your moves",
	reward.SectionPrediction:  "what you will see after them",
}

// formatText asks for the response's format.
func (e *Env) formatText() string {
	var what []string
	sections := e.parser.Sections()
	for _, name := range sections {
		what = append(what, "<"+name+"> holds "+sectionHelp[name])
	}
	text := "Answer in this form: " + e.parser.Compose(func(string) string { return "…" }) +
		" where " + strings.Join(what, ", ") + "."
	return text + e.stateHelp(sections)
}

// stateHelp says in which words or notation observations and predictions are
// wanted.
func (e *Env) stateHelp(sections []string) string {
	switch {
	case len(sections) < 3:
		return ""
	case e.describing() && e.o.DescribeHoles:
		return " Say where the goal is from you as: goal up|down|same left|right|same. In the observation, add: free, and then for " +
			"the left, below, right and above one word each: the move if it is safe, hole, or none at the shore."
	case e.describing():
		return " Say where the goal is from you as: goal up|down|same left|right|same."
	case strings.HasSuffix(e.o.PromptFormat, "_symbolic"):
		return " Draw what you see and expect as a grid of symbols."
	case strings.HasSuffix(e.o.PromptFormat, "_structured"):
		return ` Give what you see and expect as a JSON list, one object for the target and one for each hole: ` +
			`{"object_id": "target", "vertical_relation": "above|below|same", "horizontal_relation": "left|right|same"}.`
	}
	return ""
}

// example is a response in the format, with an answer that uses the separator.
func (e *Env) example() string {
	moves, at := Down.String(), exampleLake.Move(exampleLake.Start(), Down)
	if e.o.MaxActions > 1 {
		moves = Down.String() + e.o.ActionSep + Right.String()
		at = exampleLake.Move(at, Right)
	}
	return e.parser.Compose(func(section string) string {
		switch section {
		case reward.SectionAnswer:
			return moves
		case reward.SectionObservation:
			return e.exampleState(exampleLake.Start(), e.o.DescribeHoles, "The goal is below me, to the right. A hole is two cells to my right.")
		case reward.SectionPrediction:
			return e.exampleState(at, false, "I will be closer to the goal.")
		}
		return "The goal is below me to the right and the way there is free."
	})
}

// exampleState says the state with the player at a cell as the format wants it,
// or in the given words when it leaves that open.
func (e *Env) exampleState(at Cell, holes bool, words string) string {
	switch {
	case e.describing():
		return exampleLake.Describe(at, holes)
	case strings.HasSuffix(e.o.PromptFormat, "_symbolic"):
		return exampleLake.Text(e.o.Rules, at)
	case strings.HasSuffix(e.o.PromptFormat, "_structured"):
		return relationsJSON(exampleLake.Relations(at))
	}
	return words
}

// describing reports whether sections are to be written in the words of Describe.
func (e *Env) describing() bool {
	return e.o.ObservationReward != 0 || e.o.PredictionReward != 0 || e.o.PromptFormat == reward.ObservePredict
}

// exampleLake is the level that the example of the system prompt speaks of.
var exampleLake = mustParse("SFH", "FFF", "FFG")

func mustParse(rows ...string) *Map {
	m, err := Parse(rows)
	if err != nil {
		panic(err) // a fixed text of this package
	}
	return m
}

func relationsJSON(list []reward.Relation) string {
	var parts []string
	for _, r := range list {
		parts = append(parts, fmt.Sprintf(`{"object_id": %q, "vertical_relation": %q, "horizontal_relation": %q}`,
			r.Object, r.Vertical, r.Horizontal))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
