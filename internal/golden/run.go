package golden

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Run is a recorded case, and the test that compares it. Its first comparison counts the case in the tally of its file.
type Run struct {
	Case
	testing.TB
	tally   *Tally
	place   string // in messages, before what was compared
	counted bool
}

// Name is the name of the test; that of the case is Case.Name.
func (r *Run) Name() string { return r.TB.Name() }

// Each compares every case of a file of schema vagen-golden/1, in a subtest of the file's and its name.
func Each(t *testing.T, file string, compare func(r *Run)) {
	t.Helper()
	EachOf(t, file, Cases(t, file), compare)
}

// EachOf is Each for cases that were read already.
func EachOf(t *testing.T, file string, cases []Case, compare func(r *Run)) {
	t.Helper()
	tally := NewTally(t, file)
	for _, c := range cases {
		t.Run(file+"/"+c.Name, func(t *testing.T) { compare(&Run{Case: c, TB: t, tally: tally}) })
	}
}

// Of is a run for a recording of another form: Next begins each of its cases.
func Of(t testing.TB, name string) *Run {
	t.Helper()
	return &Run{TB: t, tally: NewTally(t, name), counted: true}
}

// Next counts a case, and names it in the messages of its comparisons.
func (r *Run) Next(format string, args ...any) *Run {
	r.tally.Case()
	return r.In(format, args...)
}

// In is the run for a part of the case, which the messages of its comparisons name.
func (r *Run) In(format string, args ...any) *Run {
	r.Add(0)
	part := *r
	part.place += fmt.Sprintf(format, args...) + ": "
	return &part
}

// Add counts n comparisons made by the caller.
func (r *Run) Add(n int) {
	if !r.counted {
		r.tally.Case()
	}
	r.counted = true
	r.tally.Add(n)
}

// Equal compares two values that must be the same.
func (r *Run) Equal(what string, got, want any) {
	r.Helper()
	r.Add(1)
	require.Equal(r, want, got, r.place+what)
}

// Same compares a value with the recorded one, which must be the same.
func Same[V any](r *Run, name string, got V) {
	r.Helper()
	r.Equal(name, got, Expected[V](r, name))
}

// Float compares a number within the tolerance of the case.
func (r *Run) Float(what string, got, want float64) {
	r.Helper()
	r.Within(what, got, want, r.Tolerance)
}

// Within compares a number within a tolerance of its own.
func (r *Run) Within(what string, got, want float64, tol Tolerance) {
	r.Helper()
	r.Add(0)
	r.tally.Float(r, r.place+what, got, want, tol)
}

// Number compares a number with the recorded one.
func (r *Run) Number(name string, got float64) {
	r.Helper()
	r.Float(name, got, Expected[float64](r, name))
}

// Vector compares numbers within the tolerance of the case.
func Vector[T float32 | float64](r *Run, what string, got []T, want []float64) {
	r.Helper()
	r.Add(0)
	Floats(r, r.tally, r.place+what, got, want, r.Tolerance)
}

// Numbers compares numbers with the recorded ones, which may be in lists of lists.
func Numbers[T float32 | float64](r *Run, name string, got []T) {
	r.Helper()
	Vector(r, name, got, r.Flat(r.Case.Expected, name))
}

// Flat returns the numbers of a field that must exist, one after the other whatever lists they are in.
func (r *Run) Flat(fields map[string]json.RawMessage, name string) []float64 {
	r.Helper()
	return flat(r, Value[json.RawMessage](r, fields, name))
}

func flat(t testing.TB, raw json.RawMessage) (out []float64) {
	var lists []json.RawMessage
	if json.Unmarshal(raw, &out) == nil {
		return out
	}
	require.NoError(t, json.Unmarshal(raw, &lists))
	out = nil
	for _, list := range lists {
		out = append(out, flat(t, list)...)
	}
	return out
}

// Param returns a setting of the case that must exist.
func Param[V any](r *Run, name string) V {
	r.Helper()
	return Value[V](r, r.Params, name)
}

// Param is the function Param for a number.
func (r *Run) Param(name string) float64 {
	r.Helper()
	return Param[float64](r, name)
}

// Optional is the function ParamOr for a number.
func (r *Run) Optional(name string, otherwise float64) float64 {
	r.Helper()
	return ParamOr(r, name, otherwise)
}

// ParamOr returns a setting of the case, or another value where it is absent or null.
func ParamOr[V any](r *Run, name string, otherwise V) V {
	r.Helper()
	return or(r, r.Params, name, otherwise)
}

func or[V any](r *Run, fields map[string]json.RawMessage, name string, otherwise V) V {
	r.Helper()
	var v *V
	if Decode(r, fields, name, &v); v != nil {
		return *v
	}
	return otherwise
}

// Input returns an input of the case that must exist.
func Input[V any](r *Run, name string) V {
	r.Helper()
	return Value[V](r, r.Inputs, name)
}

// InputOr returns an input of the case, or another value where it is absent or null.
func InputOr[V any](r *Run, name string, otherwise V) V {
	r.Helper()
	return or(r, r.Inputs, name, otherwise)
}

// Expected returns a recorded result of the case that must exist.
func Expected[V any](r *Run, name string) V {
	r.Helper()
	return Value[V](r, r.Case.Expected, name)
}
