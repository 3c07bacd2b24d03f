package primitiveskill

import (
	"fmt"
	"slices"
	"strings"
)

// Position is the position of an object or target, in whole millimetres.
type Position struct {
	Name string // as the original names it, such as red_cube_position
	At   [3]int // x, y, z
}

// State is the world's state as the legacy environment gives it to a judge, in the order
// of observations.
type State []Position

// state returns the positions that a task shows.
func (t *task) state(w *world) State {
	s := make(State, len(t.stateKeys))
	for i, key := range t.stateKeys {
		p := w.position(key)
		s[i] = Position{key, [3]int{millimetres(p.X), millimetres(p.Y), millimetres(p.Z)}}
	}
	return s
}

// JSON returns the state as one line of JSON: an object of lists of three numbers.
func (s State) JSON() string {
	parts := make([]string, len(s))
	for i, p := range s {
		parts[i] = fmt.Sprintf("%q: [%d, %d, %d]", p.Name, p.At[0], p.At[1], p.At[2])
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// list writes the positions alone, as observations do.
func (s State) list() string {
	parts := make([]string, len(s))
	for i, p := range s {
		parts[i] = fmt.Sprintf("(%d, %d, %d)", p.At[0], p.At[1], p.At[2])
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// other is the other information of observations: the part that a task always shows, or
// all if success is not masked.
func (t *task) other(w *world, masked bool) string {
	var parts []string
	for _, f := range t.judge(w).flags {
		if !masked || slices.Contains(t.infoKeys, f.name) {
			parts = append(parts, fmt.Sprintf("%s: %v", f.name, f.value))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// State returns the current positions, nil before the first Reset.
func (e *Env) State() State {
	if e.world == nil {
		return nil
	}
	return e.task.state(e.world)
}

// spoken is a position's name in words.
func spoken(name string) string {
	return strings.ReplaceAll(strings.TrimSuffix(name, "_position"), "_", " ")
}

// Sentence describes the positions in words.
func (s State) Sentence() string {
	parts := make([]string, len(s))
	for i, p := range s {
		parts[i] = fmt.Sprintf("The %s is at (%d, %d, %d).", spoken(p.Name), p.At[0], p.At[1], p.At[2])
	}
	return strings.Join(parts, " ")
}

// Describe describes the current positions in millimetres in words. It is "" before Reset.
func (e *Env) Describe() string { return e.State().Sentence() }
