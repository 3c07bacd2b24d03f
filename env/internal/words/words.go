// Package words holds the sentences that the prompts of several environments
// share.
package words

import (
	"slices"
	"strconv"
	"strings"

	"vagen/reward"
)

// EnforceFormat applies the next rules: a turn with too many actions is
// malformed and, if strict, a malformed turn has no effect.
func EnforceFormat(r reward.Response, strict bool) reward.Response {
	r.FormatCorrect = r.FormatCorrect && r.Dropped == 0
	if strict && !r.FormatCorrect {
		r.Actions = nil
	}
	return r
}

// List writes words as the original environments print their lists of actions:
// ['Up', 'Down'].
func List(words []string) string {
	if len(words) == 0 {
		return "[]"
	}
	return "['" + strings.Join(words, "', '") + "']"
}

// Grid draws a level as characters: the symbol of each cell with a space on each side,
// and a tab behind if tabs is set, a line to a row.
func Grid(rows, cols int, tabs bool, symbol func(row, col int) rune) string {
	var b strings.Builder
	b.Grow(rows * (cols*5 + 1))
	for row := range rows {
		if row > 0 {
			b.WriteByte('\n')
		}
		for col := range cols {
			b.WriteByte(' ')
			b.WriteRune(symbol(row, col))
			b.WriteByte(' ')
			if tabs {
				b.WriteByte('\t')
			}
		}
	}
	return b.String()
}

// Plural formats a count with its noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// sections describes the content of each section.
var sections = map[string]string{
	reward.SectionThink:       "your thoughts",
	reward.SectionObservation: "what you see now",
	reward.SectionReasoning:   "why you choose your moves",
	reward.SectionAnswer:      "your moves",
	reward.SectionPrediction:  "what you will see after them",
}

// content returns what a section holds: of known ones, or "your plan" for the section plan of a format of
// the user's own.
func content(known map[string]string, section string) string {
	if text, ok := known[section]; ok {
		return text
	}
	return "your " + strings.ReplaceAll(section, "_", " ")
}

// Format is the instruction to respond in the parser's format.
func Format(p *reward.Parser) string { return FormatOf(p, sections) + otherText(p) }

// FormatOf is the instruction to respond with sections that hold what is given.
func FormatOf(p *reward.Parser, contents map[string]string) string {
	var what []string
	for _, name := range p.Sections() {
		what = append(what, "<"+p.Tag(name)+"> holds "+content(contents, name))
	}
	return "Answer in this form: " + p.Compose(func(string) string { return "…" }) + " where " +
		strings.Join(what, ", ") + "."
}

// otherText describes other text that a response may contain, "" if none.
func otherText(p *reward.Parser) string {
	switch name := p.Format(); {
	case p.Dialect() == reward.Lite && name == "free_wm":
		return " Your thoughts stand between these blocks."
	case p.Dialect() != reward.Next:
		return ""
	case name == "wm_think" || name == "free_wm":
		return " Your own thinking may come before."
	case name == "answer" || name == "eval_mode":
		return " Your thoughts may come before it."
	}
	return ""
}

// Positions is the instruction to describe positions in the closed vocabulary that
// rule-based judges parse, for objects such as "the target" and "each hole".
func Positions(things ...string) string {
	return " Say of " + strings.Join(things, " and of ") +
		" whether it is above, below or in the same row, and left, right or in the same column, as seen from you."
}

// RelationsText describes relations in that vocabulary.
func RelationsText(list []reward.Relation) string {
	parts := make([]string, len(list))
	for i, r := range list {
		vertical, horizontal := r.Vertical, r.Horizontal
		if vertical == reward.Same {
			vertical = "in the same row"
		}
		if horizontal == reward.Same {
			horizontal = "in the same column"
		}
		parts[i] = "the " + r.Object + " is " + vertical + " and " + horizontal
	}
	text := strings.Join(parts, ", ")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// Relations is the instruction for the notation of a structured or symbolic format, ""
// for other formats. target is the object that always exists, other the kind of which
// there may be many.
func Relations(format, target, other string) string {
	switch {
	case strings.HasSuffix(format, "_symbolic"):
		return " Draw what you see and expect as a grid of symbols."
	case strings.HasSuffix(format, "_structured"):
		return ` Give what you see and expect as a JSON list, one object for each ` + target + ` and one for each ` + other +
			`: {"object_id": "` + target +
			`", "vertical_relation": "above|below|same", "horizontal_relation": "left|right|same"}.`
	}
	return ""
}

// Places requests a dictionary of the positions of the player and of kinds of
// objects, as the originals' structured formats do.
func Places(kinds ...string) string {
	parts := make([]string, len(kinds))
	for i, k := range kinds {
		parts[i] = `"` + k + `": (row, column)`
	}
	return ` Give what you see and expect as a dictionary, rows counted from the top and columns from the left, both from 0: {"player": (row, column), ` +
		strings.Join(parts, ", ") + `}. Where there are several of a kind, give a list of their places.`
}

// Things are the places, row and column, of the objects of a kind.
type Things struct {
	Kind string
	At   [][2]int
}

// Dictionary writes positions in the form that Places requests.
func Dictionary(player [2]int, all ...Things) string {
	place := func(at [2]int) string { return "(" + strconv.Itoa(at[0]) + ", " + strconv.Itoa(at[1]) + ")" }
	parts := []string{`"player": ` + place(player)}
	for _, t := range all {
		list := make([]string, len(t.At))
		for i, at := range t.At {
			list[i] = place(at)
		}
		text := strings.Join(list, ", ")
		if len(list) != 1 {
			text = "[" + text + "]"
		}
		parts = append(parts, `"`+t.Kind+`": `+text)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// JSON writes relations in the notation of a structured format.
func JSON(list []reward.Relation) string {
	parts := make([]string, len(list))
	for i, r := range list {
		parts[i] = `{"object_id": "` + r.Object + `", "vertical_relation": "` + r.Vertical + `", "horizontal_relation": "` +
			r.Horizontal + `"}`
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// DirectionText describes a position as descriptions do: up, down or same, then left, right or
// same.
func DirectionText(r reward.Relation) string {
	vertical := r.Vertical
	switch vertical {
	case reward.Above:
		vertical = "up"
	case reward.Below:
		vertical = "down"
	}
	return vertical + " " + r.Horizontal
}

// maxWords is the largest number of words that Score compares.
const maxWords = 64

// Score returns the share of words of text that equal the words of truth at the same
// index, from 0 to 1. It is 0 if the numbers of words differ.
func Score(text, truth string) float64 {
	said, total := fields(text)
	want, n := fields(truth)
	if n == 0 || total != n {
		return 0
	}
	right := 0
	for i := range min(n, maxWords) {
		if said[i] == want[i] {
			right++
		}
	}
	return float64(right) / float64(min(n, maxWords))
}

// fields splits text into words without allocating. total also counts words beyond
// maxWords, up to maxWords+1.
func fields(text string) (words [maxWords]string, total int) {
	for word := range strings.FieldsSeq(text) {
		if total == maxWords {
			return words, total + 1
		}
		words[total] = word
		total++
	}
	return words, total
}

// Must returns a value that is made of a fixed text of the program.
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Number is 1 for true and 0 for false, as in metrics.
func Number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Move returns the index of a move's word. With exact, upper and lower case differ.
func Move[M ~int](names []string, word string, exact bool) (M, bool) {
	i := slices.IndexFunc(names, func(name string) bool {
		return word == name || !exact && strings.EqualFold(word, name)
	})
	return M(max(i, 0)), i >= 0
}
