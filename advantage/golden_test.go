package advantage

import (
	"encoding/json"
	"math"
	"testing"

	"vagen/internal/golden"
)

// recorded is one recorded case as a batch, in the precision of the file.
type recorded struct {
	golden.Case
	batch                      Batch
	rewards, values, baselines []float64
	width                      int
}

// flat reads a matrix as one row-major vector and returns its width.
func flat(t testing.TB, fields map[string]json.RawMessage, name string) ([]float64, int) {
	t.Helper()
	var rows [][]float64
	if !golden.Decode(t, fields, name, &rows) {
		return nil, 0
	}
	var out []float64
	width := 0
	for _, row := range rows {
		out = append(out, row...)
		width = len(row)
	}
	return out, width
}

func bools(x []float64) []bool {
	if x == nil {
		return nil
	}
	out := make([]bool, len(x))
	for i, v := range x {
		out[i] = v != 0
	}
	return out
}

func narrow(x []float64) []float32 {
	if x == nil {
		return nil
	}
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// ids reads identities that are ints or strings.
func ids(t testing.TB, fields map[string]json.RawMessage, name string) []int {
	t.Helper()
	var raw []json.RawMessage
	if !golden.Decode(t, fields, name, &raw) {
		return nil
	}
	var in Interner
	out := make([]int, len(raw))
	for i, r := range raw {
		out[i] = in.ID(string(r))
	}
	return out
}

// record builds the batch of a case. Masks and identities are set by the test,
// because the files name them differently.
func record(t testing.TB, c golden.Case, rewards string) *recorded {
	t.Helper()
	r := &recorded{Case: c}
	r.rewards, r.width = flat(t, c.Inputs, rewards)
	r.values, _ = flat(t, c.Inputs, "values")
	if c.DType == "float32" {
		// The recorded inputs are short decimals that the original rounded.
		round(r.rewards)
		round(r.values)
	}
	r.batch.Rewards, r.batch.Values = narrow(r.rewards), narrow(r.values)
	for i := 0; i <= len(r.rewards); i += r.width {
		r.batch.Offsets = append(r.batch.Offsets, i)
	}
	return r
}

func round(x []float64) {
	for i, v := range x {
		x[i] = float64(float32(v))
	}
}

func (r *recorded) mask(t testing.TB, name string) []bool {
	t.Helper()
	m, _ := flat(t, r.Inputs, name)
	if m == nil {
		t.Fatalf("%s: mask %q is missing", r.Name, name)
	}
	return bools(m)
}

func (r *recorded) param(t testing.TB, name string) float64 {
	t.Helper()
	var x float64
	golden.Need(t, r.Params, name, &x)
	return x
}

func (r *recorded) flag(t testing.TB, name string, unset bool) bool {
	t.Helper()
	x := unset
	golden.Decode(t, r.Params, name, &x)
	return x
}

// storage is the tolerance for numbers that went through float32 storage: half
// a unit in the last place of inputs and results, over sums as long as the
// recorded rows, and relative to the largest number involved, which whitening
// may scale up. The recorded tolerance comes on top.
func storage(tol golden.Tolerance, scale float64) golden.Tolerance {
	return golden.Tolerance{Abs: tol.Abs + 2e-5*math.Max(1, scale), Rel: tol.Rel + 2e-5}
}

// compare runs an estimator on float64 storage, with the recorded tolerance unchanged,
// and through the public float32 interface. The raw variant, if given, must return
// raw_advantages.
func (r *recorded) compare(t *testing.T, tally *golden.Tally, est, raw Estimator) {
	t.Helper()
	tally.Case()
	wide64 := wide(r.Name, &r.batch, r.rewards, r.values, r.baselines)
	if err := call64(est, wide64); err != nil {
		t.Errorf("%s: %v", r.Name, err)
		return
	}
	var out Result
	if err := est.Estimate(&out, &r.batch); err != nil {
		t.Errorf("%s: %v", r.Name, err)
		return
	}
	tol := storage(r.Tolerance, r.rawScale(wide64))
	if r.DType == "float32" {
		// The recorded tolerance was made for float32 arithmetic.
		tol = r.Tolerance
	}
	pair := func(name string, full []float64, stored []float32) {
		want, _ := flat(t, r.Expected, name)
		if want == nil {
			return
		}
		golden.Floats(t, tally, r.Name+" "+name, full, want, r.Tolerance)
		golden.Floats(t, tally, r.Name+" "+name+" (stored)", stored, want, tol)
	}
	pair("advantages", wide64.adv, out.Advantages)
	pair("returns", wide64.ret, out.Returns)
	if want, _ := flat(t, r.Expected, "value_mask"); want != nil {
		same(t, tally, r.Name+" value_mask", wide64.valueMask, bools(want))
		same(t, tally, r.Name+" value_mask (stored)", out.ValueMask, bools(want))
	}
	if want, _ := flat(t, r.Expected, "turn_id"); want != nil {
		same(t, tally, r.Name+" turn_id", wide64.turnID, ints(want))
		same(t, tally, r.Name+" turn_id (stored)", out.TurnID, ints(want))
	}
	if _, ok := r.Expected["raw_advantages"]; !ok || raw == nil {
		return
	}
	wideRaw := wide(r.Name, &r.batch, r.rewards, r.values, r.baselines)
	if err := call64(raw, wideRaw); err != nil {
		t.Errorf("%s: raw: %v", r.Name, err)
		return
	}
	if err := raw.Estimate(&out, &r.batch); err != nil {
		t.Errorf("%s: raw: %v", r.Name, err)
		return
	}
	pair("raw_advantages", wideRaw.adv, out.Advantages)
}

// rawScale bounds how much larger than one the numbers are, relative to the standard
// deviation that whitening divides by.
func (r *recorded) rawScale(c *call[float64]) float64 {
	big := 1.0
	for _, x := range [][]float64{r.rewards, r.values, c.ret} {
		for _, v := range x {
			if v != IgnoreReturn {
				big = math.Max(big, math.Abs(v))
			}
		}
	}
	if c.raw.N > 1 {
		big = math.Max(big, big/math.Sqrt(c.raw.Variance()+whitenEpsilon))
	}
	return big
}

func ints(x []float64) []int32 {
	out := make([]int32, len(x))
	for i, v := range x {
		out[i] = int32(v)
	}
	return out
}

func same[E comparable](t testing.TB, tally *golden.Tally, what string, got, want []E) {
	t.Helper()
	tally.Add(1)
	if len(got) != len(want) {
		t.Errorf("%s: %d entries, want %d", what, len(got), len(want))
		return
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s[%d]: got %v, want %v", what, i, got[i], want[i])
			return
		}
	}
}
