package store

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	"vagen/mask"
	"vagen/rollout"
)

// Difference is the first difference between two lists of episodes.
type Difference struct {
	Episode      int // position in the lists
	Group, Index int // of the episode in the first list
	Turn         int // counted over the episode; -1 if the difference is not in a token
	Row, Token   int // conversation and position of a token; -1 if the difference is not in a token
	What         string
	Was, Is      string // in the first list, and in the second
}

// String describes the difference on one line.
func (d *Difference) String() string {
	s := fmt.Sprintf("episode %d (group %d, index %d)", d.Episode, d.Group, d.Index)
	if d.Token >= 0 {
		s += fmt.Sprintf(", turn %d, conversation %d, position %d", d.Turn, d.Row, d.Token)
	}
	return fmt.Sprintf("%s: %s was %s, is %s", s, d.What, d.Was, d.Is)
}

func newDifference(episode int, what string, was, is any) *Difference {
	return &Difference{Episode: episode, Turn: -1, Row: -1, Token: -1, What: what, Was: fmt.Sprint(was),
		Is: fmt.Sprint(is)}
}

// FirstDifference compares all that a file would store of episodes, one by one: their tokens and the tokens'
// log-probs, and then everything else, floats bit by bit and images by their names. nil means that nothing differs.
func FirstDifference(was, is []*rollout.Trajectory) (*Difference, error) {
	names := newFolder("")
	names.gallery = &Gallery{o: GalleryOptions{NamesOnly: true}}
	for i := range min(len(was), len(is)) {
		old, err1 := encode(0, was[i], names.storeImage)
		now, err2 := encode(0, is[i], names.storeImage)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("store: episode %d: %w", i, err)
		}
		d := firstToken(i, old.Rows, now.Rows)
		if what, a, b := differ("", reflect.ValueOf(old), reflect.ValueOf(now)); d == nil && what != "" {
			d = newDifference(i, what, a, b)
		}
		if d != nil {
			d.Group, d.Index = was[i].Group, was[i].Index
			return d, nil
		}
	}
	if len(was) != len(is) {
		return newDifference(min(len(was), len(is)), "number of episodes", len(was), len(is)), nil
	}
	return nil, nil
}

// firstToken returns the first difference between the tokens of an episode's conversations, or their log-probs.
func firstToken(episode int, was, is []row) (d *Difference) {
	turn := 0
	for r := range min(len(was), len(is)) {
		a, b := &was[r], &is[r]
		end := 0
		for _, p := range a.Pieces {
			start := end
			end += int(p.Length)
			for i := start; i < min(end, len(b.Tokens)); i++ {
				switch token := a.Tokens[i]; {
				case token != b.Tokens[i]:
					d = newDifference(episode, "token", token, b.Tokens[i])
				case math.Float32bits(a.LogProbs[i]) != math.Float32bits(b.LogProbs[i]):
					d = newDifference(episode, fmt.Sprintf("log-prob of token %d", token), a.LogProbs[i], b.LogProbs[i])
				default:
					continue
				}
				d.Turn, d.Row, d.Token = turn, r, i
				return d
			}
			if p.Kind == mask.Response.String() || p.Kind == summaryPiece {
				turn++ // context tokens belong to the turn that follows them
			}
		}
	}
	return nil
}

// differ returns the path of the first column in which two records differ, or "".
func differ(path string, a, b reflect.Value) (what string, was, is any) {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("parquet"), ",")
			if path != "" {
				name = path + "." + name
			}
			if what, was, is = differ(name, a.Field(i), b.Field(i)); what != "" {
				return what, was, is
			}
		}
		return "", nil, nil
	case reflect.Slice:
		for i := range min(a.Len(), b.Len()) {
			if what, was, is = differ(fmt.Sprintf("%s[%d]", path, i), a.Index(i), b.Index(i)); what != "" {
				return what, was, is
			}
		}
		if a.Len() != b.Len() {
			return "length of " + path, a.Len(), b.Len()
		}
		return "", nil, nil
	case reflect.Float32, reflect.Float64: // a float32 keeps its bits in a float64
		if math.Float64bits(a.Float()) == math.Float64bits(b.Float()) {
			return "", nil, nil
		}
	case reflect.String:
		if a.String() == b.String() {
			return "", nil, nil
		}
		return path, fmt.Sprintf("%q", a.String()), fmt.Sprintf("%q", b.String())
	default:
		if a.Equal(b) {
			return "", nil, nil
		}
	}
	return path, a.Interface(), b.Interface()
}

// FirstScoresDifference compares the scores of a step with recorded ones, floats bit by
// bit. nil means that nothing differs. Episode of the result is the position in was.
func FirstScoresDifference(was, is []Scores) *Difference {
	for i := range min(len(was), len(is)) {
		if what, x, y := differ("", reflect.ValueOf(was[i]), reflect.ValueOf(is[i])); what != "" {
			d := newDifference(i, fmt.Sprintf("scores of conversation %d: %s", was[i].Row, what), x, y)
			d.Group, d.Index, d.Row = was[i].Group, was[i].Index, was[i].Row
			return d
		}
	}
	if len(was) != len(is) {
		return newDifference(min(len(was), len(is)), "number of rows with scores", len(was), len(is))
	}
	return nil
}
