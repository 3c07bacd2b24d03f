package reward

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/floats"
	"vagen/mask"
	"vagen/policy/loss"
)

// floats reads numbers of any size, NaN and infinities among them.
func numbers(data []byte) (out []float64) {
	for ; len(data) >= 8; data = data[8:] {
		out = append(out, math.Float64frombits(binary.LittleEndian.Uint64(data)))
	}
	return out
}

func bytesOf(x ...float64) (out []byte) {
	for _, v := range x {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
	}
	return out
}

func allFinite[F float32 | float64](x []F) bool {
	return !slices.ContainsFunc(x, func(v F) bool { return !floats.Finite(v) })
}

// FuzzNormalize: the results are finite, or there is an error and the state does not
// change; a saved state can be read.
func FuzzNormalize(f *testing.F) {
	f.Add(uint8(0), 1e-8, 0.0, bytesOf(1, 2, 3, 4))
	f.Add(uint8(5), 0.0, 2.0, bytesOf(1e308, -1e308, 5e-324, 0))
	f.Add(uint8(7), -1.0, math.NaN(), bytesOf(math.Inf(1)))
	f.Fuzz(func(t *testing.T, choice uint8, epsilon, limit float64, data []byte) {
		scope := []Scope{ByBatch, ByGroup, ByEnvironment, "team"}[choice%4]
		n := &Normalizer{Scope: scope, Center: choice&4 != 0, Running: choice&8 != 0, Epsilon: epsilon, Limit: limit}
		for range 2 {
			values := numbers(data)
			var keys []string
			for i := range values {
				keys = append(keys, string(rune('a'+i%3)))
			}
			before, err := json.Marshal(n)
			require.NoError(t, err)
			if err := n.Apply(values, keys); err != nil {
				require.Equal(t, bytesOf(numbers(data)...), bytesOf(values...))
				after, err := json.Marshal(n)
				require.NoError(t, err)
				require.JSONEq(t, string(before), string(after))
				return
			}
			require.True(t, allFinite(values), "%v", values)
		}
		state, err := json.Marshal(n)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(state, new(Normalizer)), "%s", state)
	})
}

// FuzzShapeKL: shaped rewards are finite or there is an error.
func FuzzShapeKL(f *testing.F) {
	f.Add(uint8(0), 0.1, bytesOf(1, -1, -2, 0, -3, -1))
	f.Add(uint8(6), 1e300, bytesOf(1, -1e300, 1e300))
	f.Add(uint8(3), 0.0, bytesOf(math.NaN(), 1, 2, 3, math.Inf(1), 5))
	f.Fuzz(func(t *testing.T, choice uint8, coefficient float64, data []byte) {
		x := numbers(data)
		n := len(x) / 3
		dst, covered := make([]float32, n), make([]bool, n)
		narrow := func(x []float64) (out []float32) {
			for _, v := range x {
				out = append(out, float32(v))
			}
			return out
		}
		for i := range covered {
			covered[i] = int(choice)>>(i%8)&1 == 0
		}
		reference := narrow(x[2*n : 3*n])
		if choice&64 != 0 {
			reference = nil
		}
		k := []loss.KL{loss.K1, loss.AbsKL, loss.K2, loss.K3, "k9"}[choice%5]
		mean, err := ShapeKL(dst, narrow(x[:n]), narrow(x[n:2*n]), reference, covered, []int{0, n / 2, n}, k, coefficient)
		if err == nil {
			require.True(t, floats.Finite(mean) && allFinite(dst), "mean %v, rewards %v", mean, dst)
		}
	})
}

// FuzzPlace: rewards of tokens are finite and add up, or there is an error and
// nothing is appended.
func FuzzPlace(f *testing.F) {
	f.Add(uint8(0), 0.5, -1.0, 2.0)
	f.Add(uint8(2), 1e39, 1.0, 0.0)
	f.Add(uint8(1), math.MaxFloat64, math.MaxFloat64, math.NaN())
	f.Fuzz(func(t *testing.T, choice uint8, a, b, final float64) {
		var row mask.Sequence
		require.NoError(t, row.AppendContext(mask.Prompt, 1, 2))
		require.NoError(t, row.AppendResponse(1, 2, 3, 4, 5))
		require.NoError(t, row.AddSpan("observation", 3, 5))
		turns := []Parts{{{Name: "observation", Value: a}, {Name: "format", Value: b}}}
		how := []Placement{PerTurn, AtLast, PerSpan, "nowhere"}[choice%4]
		out, err := Place(nil, &row, how, turns, final)
		if err != nil {
			require.Empty(t, out)
			return
		}
		require.Len(t, out, row.Len())
		require.True(t, allFinite(out), "%v", out)
	})
}

func TestNumbersTooLargeAreErrors(t *testing.T) {
	far := []float64{1.5e308, -1.5e308, 0}
	n := &Normalizer{Running: true}
	require.ErrorContains(t, n.Apply(far, nil), "must be finite")
	require.Equal(t, []float64{1.5e308, -1.5e308, 0}, far)
	require.NoError(t, n.Apply([]float64{1, 2}, nil), "the state is as it was")
	for _, bad := range []*Normalizer{{Epsilon: -1}, {Epsilon: math.NaN()}, {Limit: -1}, {Limit: math.NaN()}} {
		require.ErrorContains(t, bad.Apply([]float64{1, 2}, nil), "must not be negative")
	}

	dst := make([]float32, 2)
	off := []bool{true, false}
	two := make([]float32, 2)
	_, err := ShapeKL(dst, []float32{0, float32(math.NaN())}, two, two, off, []int{0, 2}, loss.K1, 1)
	require.ErrorContains(t, err, "row 0, token 1: score NaN")
	_, err = ShapeKL(dst, []float32{0, float32(math.Inf(1))}, nil, nil, nil, []int{0, 1, 2}, loss.K1, 1)
	require.ErrorContains(t, err, "row 1, token 0: score +Inf")
	_, err = ShapeKL(dst, []float32{0, 0}, []float32{-1e38, 0}, []float32{0, 0}, nil, []int{0, 2}, loss.K1, 1e30)
	require.ErrorContains(t, err, "row 0, token 0: score 0 minus 1e+30 times")

	var row mask.Sequence
	require.NoError(t, row.AppendResponse(1, 2, 3))
	require.NoError(t, row.AddSpan("observation", 0, 2))
	_, err = Place(nil, &row, PerSpan, []Parts{{{Name: "observation", Value: 1e39}}}, 0)
	require.ErrorContains(t, err, `turn 0: part "observation" of 1e+39 is too large`)
}
