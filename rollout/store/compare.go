package store

import (
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"

	"vagen/rollout"
)

// FirstDifference compares the records of a file with the records of trajectories:
// everything that is stored, floats bit by bit. nil means that nothing differs.
// Images are compared by their names.
func FirstDifference(path string, step int, ts []*rollout.Trajectory) (*rollout.Difference, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	d, err := r.firstDifference(step, ts)
	if err != nil {
		return nil, fmt.Errorf("store: %s: %w", path, err)
	}
	return d, nil
}

func (r *Reader) firstDifference(step int, ts []*rollout.Trajectory) (*rollout.Difference, error) {
	whole := func(i int, what string, was, is any) *rollout.Difference {
		return &rollout.Difference{Episode: i, Turn: -1, Row: -1, Token: -1, What: what, Was: fmt.Sprint(was),
			Is: fmt.Sprint(is)}
	}
	if r.Len() != len(ts) {
		return whole(min(r.Len(), len(ts)), "number of episodes", r.Len(), len(ts)), nil
	}
	in, err := rows[record](r.table)
	if err != nil {
		return nil, err
	}
	names := newFolder(r.path)
	names.gallery = &Gallery{o: GalleryOptions{NamesOnly: true}}
	for i, t := range ts {
		var one [1]record
		if n, err := next(in, one[:]); n == 0 || err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("trajectory %d: %w", i, err)
		}
		now, err := encode(step, t, names.storeImage)
		if err != nil {
			return nil, fmt.Errorf("trajectory %d: %w", i, err)
		}
		if what, was, is := differ("", reflect.ValueOf(one[0]), reflect.ValueOf(now)); what != "" {
			d := whole(i, what, was, is)
			d.Group, d.Index = t.Group, t.Index
			return d, nil
		}
	}
	return nil, nil
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
func FirstScoresDifference(was, is []Scores) *rollout.Difference {
	for i := range min(len(was), len(is)) {
		what, x, y := differ("", reflect.ValueOf(encodeScores(0, &was[i])), reflect.ValueOf(encodeScores(0, &is[i])))
		if what != "" {
			return &rollout.Difference{
				Episode: i, Group: was[i].Group, Index: was[i].Index, Turn: -1, Row: was[i].Row, Token: -1,
				What: fmt.Sprintf("scores of conversation %d: %s", was[i].Row, what), Was: fmt.Sprint(x), Is: fmt.Sprint(y),
			}
		}
	}
	if len(was) != len(is) {
		return &rollout.Difference{
			Episode: min(len(was), len(is)), Turn: -1, Row: -1, Token: -1,
			What: "number of rows with scores", Was: fmt.Sprint(len(was)), Is: fmt.Sprint(len(is)),
		}
	}
	return nil
}
