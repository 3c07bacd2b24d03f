package svg

import (
	"fmt"
	"strconv"
	"strings"

	"vagen/env"
	"vagen/env/internal/prompts"
	"vagen/env/internal/words"
	"vagen/reward"
)

// placeholders are those of templates of the user. Observations contain what the document draws.
var placeholders = prompts.Names{Observation: []string{prompts.Action, "reward"}}

// ownSystem describes the task.
func ownSystem() string {
	return "You redraw pictures in SVG. You are shown a picture of 256 by 256 pixels on white; write one SVG document that looks the same. " +
		"Look first which shapes there are, in which colours, how large and where. After each answer you see what your code draws; then correct it.\n\n" +
		"Give the document a viewBox and the usual namespace. Paths, basic shapes, groups, transforms and gradients may be used; " +
		"sizes of basic shapes are plain numbers. The more your drawing is like the picture, the higher the reward.\n\n"
}

// sections describes the content of each section.
var sections = map[string]string{
	reward.SectionThink:       "your thoughts",
	reward.SectionObservation: "what you see",
	reward.SectionReasoning:   "how you want to draw it",
	reward.SectionPrediction:  "what your drawing will look like",
	reward.SectionAnswer:      "the SVG document",
}

// ownFormat is the instruction about the response's format.
func (e *Env) ownFormat() string {
	text := words.FormatOf(e.Base.Parser(), sections)
	if e.o.MaxActions > 1 {
		text += fmt.Sprintf(" Up to %s may stand there, with %q between them; the first one counts.",
			words.Plural(e.o.MaxActions, "document"), e.o.ActionSep)
	}
	return text
}

// example is a response in the format.
func (e *Env) example() string {
	return e.Base.Parser().Compose(func(section string) string {
		switch section {
		case reward.SectionAnswer:
			return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect x="8" y="36" width="48" height="20" fill="#4a7c3a"/>` +
				`<circle cx="44" cy="16" r="9" fill="gold"/></svg>`
		case reward.SectionObservation:
			return "A wide green block below, a small yellow disc at the upper right."
		case reward.SectionPrediction:
			return "The same block and disc, at the same places."
		}
		return "One rect for the block and one circle for the disc are enough."
	})
}

// targetText shows the target at the start of an episode.
func (e *Env) targetText() string {
	return e.Texts.Observation(true, e.ownFirst, func() prompts.Values {
		return prompts.Values{prompts.Observation: env.ImageMark, prompts.Action: "", "reward": "0",
			prompts.Format: e.FormatText()}
	})
}

func (e *Env) ownFirst() string {
	return "This is the picture to redraw:\n" + env.ImageMark + "\nWrite your SVG document.\n" + e.FormatText()
}

// attemptText shows what was drawn in a turn.
func (e *Env) attemptText(code string, earned float64) string {
	return e.Texts.Observation(false, func() string { return e.ownLater(code, earned) }, func() prompts.Values {
		return prompts.Values{
			prompts.Observation: env.ImageMark, prompts.Action: unmarked(code),
			"reward": strconv.FormatFloat(earned, 'f', 4, 64), prompts.Format: e.FormatText(),
		}
	})
}

// unmarked returns code without marks of pictures.
func unmarked(code string) string { return strings.ReplaceAll(code, env.ImageMark, "<image/>") }

func (e *Env) ownLater(code string, earned float64) string {
	shown := "Your document was " + unmarked(code) + "\nIt draws:\n"
	if code == "" {
		shown = "There was no valid SVG document in your answer, so the sheet is empty:\n"
	}
	return shown + env.ImageMark + "\nThis turn earned " + strconv.FormatFloat(earned, 'f', 4, 64) +
		". Correct the document so that it comes closer to the picture.\n" + e.FormatText()
}
