package advantage

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAResultThatSharesTheBatchsMemoryIsRefused: an estimator would read numbers that it
// has just written, and silently return wrong ones.
func TestAResultThatSharesTheBatchsMemoryIsRefused(t *testing.T) {
	onceEach(t, func(t *testing.T, spec Spec, est Estimator) {
		b := good()
		n := b.Tokens()
		b.LogProbs, b.SumPiSquared, b.Weights = make([]float32, n), make([]float32, n), make([]float32, n)
		b.Components = [][]float32{nil, make([]float32, n)}
		for i, column := range []*[]float32{&b.Rewards, &b.Values, &b.Baselines, &b.LogProbs, &b.SumPiSquared, &b.Weights,
			&b.Components[1]} {
			*column = append(make([]float32, 0, n), *column...)
			want := slices.Clone(*column)
			for what, out := range map[string]Result{"advantages": {Advantages: (*column)[:0]}, "returns": {Returns: *column}} {
				if what == "returns" && len(*column) < n {
					continue
				}
				refuse(t, what, est.Estimate(&out, b), ErrOverlap, what+": same memory as a column", name0(spec.Name))
			}
			require.Equal(t, want, *column, "column %d was written to", i)
		}
		x := make([]float32, n+1)
		out := Result{Advantages: x, Returns: x[1:]}
		refuse(t, "both", est.Estimate(&out, good()), ErrOverlap, "advantages: same memory as returns")
	})
}

// TestAPublishedValueMaskIsNotABatchsMaskToo: the next call with the same result would
// overwrite the mask that it reads.
func TestAPublishedValueMaskIsNotABatchsMaskToo(t *testing.T) {
	onceEach(t, func(t *testing.T, spec Spec, est Estimator) {
		for i := 0; spec.ValueMask && i < 5; i++ {
			out, b := run(t, est, good()), good()
			*[]*[]bool{&b.Attention, &b.Loss, &b.Response, &b.GAE, &b.TurnEnd}[i] = out.ValueMask
			refuse(t, "mask", est.Estimate(out, b), ErrOverlap, "value mask: same memory as a mask of the batch")
		}
	})
}

// TestNeighboursInOneArrayAreNotShared: slices without a common element may be
// parts of one array, and a result may be used again.
func TestNeighboursInOneArrayAreNotShared(t *testing.T) {
	onceEach(t, func(t *testing.T, _ Spec, est Estimator) {
		b := good()
		n := b.Tokens()
		want := run(t, est, b)
		all := make([]float32, 4*n)
		out := &Result{Advantages: all[n : 2*n], Returns: all[3*n:]}
		copy(all, b.Rewards)
		copy(all[2*n:], b.Values)
		b.Rewards, b.Values = all[:n], all[2*n:3*n]
		for range 2 {
			estimateOrFail(t, est, out, b)
			require.Equal(t, want.Advantages, out.Advantages, "the memory that a result lies in changed its numbers")
			require.Equal(t, want.Returns, out.Returns, "the memory that a result lies in changed its numbers")
		}
	})
}

// TestRAELeavesItsBatchAlone: also the baselines of the last result, however often a batch is used.
func TestRAELeavesItsBatchAlone(t *testing.T) {
	var out Result
	b := &Batch{Offsets: []int{0, 1}, Rewards: []float32{1}, Running: []float64{0}}
	for range 4 {
		before := slices.Clone(b.Running)
		for range 3 {
			estimateOrFail(t, RAE{0.5}, &out, b)
			require.Equal(t, before, b.Running)
			require.Equal(t, []float64{before[0]/2 + 0.5}, out.Running)
		}
		b.Running = out.Running
	}
}
