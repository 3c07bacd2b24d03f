package primitiveskill

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"vagen/internal/pytext"
)

// Skill is a command to the arm.
type Skill struct {
	Name string // pick, place or push
	At   Point  // metres
	To   Point  // where a push ends
}

// Names of the skills.
const (
	Pick  = "pick"
	Place = "place"
	Push  = "push"
)

// parseSkill parses a command as the original does: a name in upper or lower case, an
// opening bracket, and numbers of millimetres separated by commas. Text after the closing
// bracket, or after a second opening one, is ignored, and the closing bracket may be
// missing. Coordinates are clamped to the workspace. ok is false for an unknown name, a
// wrong count of numbers, or an invalid number.
func (t *task) parseSkill(text string) (s Skill, ok bool) {
	name, words := parts(text)
	s.Name = strings.ToLower(name)
	want := 3
	switch s.Name {
	case Pick, Place:
	case Push:
		want = 6
	default:
		return s, false
	}
	if len(words) != want {
		return s, false
	}
	var v [6]float64
	for i, w := range words {
		mm, ok := number(w)
		if !ok {
			return s, false
		}
		// The limits are whole millimetres.
		limit := t.workspace[i%3]
		v[i] = min(max(mm, math.Round(1000*limit[0])), math.Round(1000*limit[1])) / 1000
	}
	s.At, s.To = Point{v[0], v[1], v[2]}, Point{v[3], v[4], v[5]}
	return s, true
}

// parts returns the name of a command and the texts of its numbers.
func parts(command string) (name string, numbers []string) {
	name, rest, _ := strings.Cut(command, "(")
	rest, _, _ = strings.Cut(rest, "(")
	rest, _, _ = strings.Cut(rest, ")")
	numbers = strings.Split(rest, ",")
	for i, text := range numbers {
		numbers[i] = pytext.Strip(text)
	}
	return pytext.Strip(name), numbers
}

// number parses a number as Python's float does, except that NaN is invalid.
func number(text string) (float64, bool) {
	if strings.ContainsAny(text, "xXpP") {
		return 0, false // Go's hexadecimal notation
	}
	kept := make([]byte, 0, len(text))
	for i := range len(text) {
		if text[i] == '_' && i > 0 && i+1 < len(text) && digit(text[i-1]) && digit(text[i+1]) {
			continue // Python allows 1_000
		}
		kept = append(kept, text[i])
	}
	v, err := strconv.ParseFloat(string(kept), 64)
	if err != nil && !math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, false
	}
	return v, true
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// do runs a skill; the arm returns home afterwards.
func (w *world) do(s Skill) {
	switch s.Name {
	case Pick:
		w.pick(s.At)
	case Place:
		w.place(s.At)
	case Push:
		w.push(s.At, s.To)
	}
	w.gripper = w.home
}

// String writes the command in whole millimetres.
func (s Skill) String() string {
	mm := func(p Point) string {
		return fmt.Sprintf("%d,%d,%d", millimetres(p.X), millimetres(p.Y), millimetres(p.Z))
	}
	if s.Name == Push {
		return s.Name + "(" + mm(s.At) + "," + mm(s.To) + ")"
	}
	return s.Name + "(" + mm(s.At) + ")"
}

// millimetres rounds as numpy does, halves to the even number.
func millimetres(m float64) int { return int(math.RoundToEven(1000 * m)) }
