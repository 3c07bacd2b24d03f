package advantage

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// recorded is one recorded case as a batch.
type recorded struct {
	*golden.Run
	batch Batch
}

// flat reads a matrix as one row-major vector and returns its width.
func flat(t testing.TB, fields map[string]json.RawMessage, name string) (out []float64, width int) {
	t.Helper()
	var rows [][]float64
	golden.Decode(t, fields, name, &rows)
	for _, row := range rows {
		out, width = append(out, row...), len(row)
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

// record reads the columns of padded rows: rewards, shaped by a KL if they are, else scores, else as many zeros as
// there are log-probs.
func record(c *golden.Run) *recorded {
	c.Helper()
	r := &recorded{Run: c}
	b := &r.batch
	var width int
	for _, name := range []string{"token_level_rewards", "token_level_scores", "log_prob"} {
		if rewards, w := flat(c, c.Inputs, name); b.Rewards == nil {
			b.Rewards, width = narrow(rewards), w
		}
	}
	values, _ := flat(c, c.Inputs, "values")
	b.Values = narrow(values)
	for i := 0; i <= len(b.Rewards); i += width {
		b.Offsets = append(b.Offsets, i)
	}
	for _, name := range []string{"response_mask", "loss_mask", "eos_mask"} {
		if m, _ := flat(c, c.Inputs, name); m != nil {
			b.Loss = bools(m)
		}
	}
	for name, into := range map[string]*[]int{"index": &b.Group, "group_idx": &b.Group, "episode_id": &b.Trajectory} {
		if x := ids(c, c.Inputs, name); x != nil {
			*into = x
		}
	}
	if b.Trajectory == nil {
		b.Trajectory = ids(c, c.Inputs, "traj_idx")
	}
	golden.Decode(c, c.Inputs, "turn_idx", &b.Turn)
	return r
}

func (r *recorded) mask(name string) []bool {
	r.Helper()
	return bools(r.Flat(r.Inputs, name))
}

// storage is the tolerance for numbers that went through float32 storage: half
// a unit in the last place of inputs and results, over sums as long as the
// recorded rows, and relative to the largest number involved, which whitening
// may scale up. The recorded tolerance comes on top.
func storage(tol golden.Tolerance, scale float64) golden.Tolerance {
	return golden.Tolerance{Abs: tol.Abs + 2e-5*math.Max(1, scale), Rel: tol.Rel + 2e-5}
}

// compare runs an estimator on a case. The raw variant, if given, must return raw_advantages.
func (r *recorded) compare(est, raw Estimator) {
	r.Helper()
	var out Result
	require.NoError(r, est.Estimate(&out, &r.batch))
	if r.DType != "float32" { // for whose arithmetic the recorded tolerance was made
		r.Tolerance = storage(r.Tolerance, r.rawScale(&out))
	}
	pair := func(name string, got []float32) {
		if r.Expected[name] != nil {
			golden.Numbers(r.Run, name, got)
		}
	}
	pair("advantages", out.Advantages)
	pair("returns", out.Returns)
	if want, _ := flat(r, r.Expected, "value_mask"); want != nil {
		r.Equal("value_mask", out.ValueMask, bools(want))
	}
	if want, _ := flat(r, r.Expected, "turn_id"); want != nil {
		r.Equal("turn_id", out.TurnID, ints(want))
	}
	if r.Expected["raw_advantages"] != nil && raw != nil {
		require.NoError(r, raw.Estimate(&out, &r.batch), "raw")
		pair("raw_advantages", out.Advantages)
	}
}

// rawScale bounds how much larger than one the numbers are, relative to the standard
// deviation that whitening divides by.
func (r *recorded) rawScale(out *Result) float64 {
	big := 1.0
	for _, x := range [][]float32{r.batch.Rewards, r.batch.Values, out.Returns} {
		for _, v := range x {
			if v != IgnoreReturn {
				big = math.Max(big, math.Abs(float64(v)))
			}
		}
	}
	if out.Raw.N > 1 {
		big = math.Max(big, big/math.Sqrt(out.Raw.Variance()+whitenEpsilon))
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
