package prompts

import (
	"strconv"

	"vagen/env"
	"vagen/env/internal/options"
	"vagen/env/internal/words"
)

// Level is a turn of an environment that shows a level of cells.
type Level struct {
	Noun  string   // what the level is called
	Shown string   // its drawing in symbols, or the mark of its picture
	Moved []string // the moves that led there
	Turn  int      // its number, from 1
	First bool     // of the episode
}

// Level returns the observation of a level. format describes the response's format.
func (s *Set) Level(o *options.Level, l Level, format func() string) string {
	return s.Observation(l.First, func() string { return l.own(o, format) }, func() Values {
		return Values{Observation: l.Shown, Action: words.List(l.Moved), Turn: strconv.Itoa(l.Turn), Format: format()}
	})
}

// own is the text without templates. The brief one has a picture, or a drawing on its own lines, and the
// number of the turn.
func (l Level) own(o *options.Level, format func() string) string {
	if o.Prompt == options.Brief {
		if l.Shown != env.ImageMark {
			l.Shown += "\n"
		}
		return l.Shown + "Turn " + strconv.Itoa(l.Turn)
	}
	text := "This is the " + l.Noun
	if !l.First {
		text = "Moves made: " + words.List(l.Moved) + ". " + text + " now"
	}
	text += ":\n" + l.Shown + "\nWhat do you do?"
	if o.LayoutOf(o.Rules) == env.Legacy {
		text += "\n" + format()
	}
	return text
}
