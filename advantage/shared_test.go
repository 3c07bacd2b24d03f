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
		for what, share := range map[string]func(b *Batch) Result{
			"advantages: same memory as rewards": func(b *Batch) Result { return Result{Advantages: b.Rewards} },
			"advantages: same memory as values":  func(b *Batch) Result { return Result{Advantages: b.Values[:0]} },
			"returns: same memory as rewards":    func(b *Batch) Result { return Result{Returns: b.Rewards[:1]} },
			"returns: same memory as values":     func(b *Batch) Result { return Result{Returns: b.Values} },
			"advantages: same memory as baselines": func(b *Batch) Result {
				return Result{Advantages: roomBefore(&b.Baselines, b.Tokens())}
			},
			"returns: same memory as baselines": func(b *Batch) Result {
				return Result{Returns: roomBefore(&b.Baselines, b.Tokens())}
			},
			"advantages: same memory as log_probs": func(b *Batch) Result {
				b.LogProbs = make([]float32, b.Tokens())
				return Result{Advantages: b.LogProbs}
			},
			"returns: same memory as sum_pi_squared": func(b *Batch) Result {
				b.SumPiSquared = make([]float32, b.Tokens())
				return Result{Returns: b.SumPiSquared}
			},
			"advantages: same memory as weights": func(b *Batch) Result {
				b.Weights = make([]float32, b.Tokens())
				return Result{Advantages: b.Weights}
			},
			"returns: same memory as components": func(b *Batch) Result {
				b.Components = [][]float32{nil, make([]float32, b.Tokens())}
				return Result{Returns: b.Components[1]}
			},
			"advantages: same memory as returns": func(b *Batch) Result {
				x := make([]float32, b.Tokens()+1)
				return Result{Advantages: x, Returns: x[1:]}
			},
		} {
			b := good()
			out := share(b)
			want := [][]float32{slices.Clone(b.Rewards), slices.Clone(b.Values), slices.Clone(b.Baselines)}
			refuse(t, what, est.Estimate(&out, b), ErrOverlap, what, name0(spec.Name))
			for i, x := range [][]float32{b.Rewards, b.Values, b.Baselines} {
				require.Equal(t, want[i], x, "%s: the batch was written to", what)
			}
		}
	})
}

// roomBefore moves x to the end of a slice with room for n entries, which it
// returns empty.
func roomBefore(x *[]float32, n int) []float32 {
	room := make([]float32, n)
	*x = room[n-copy(room[n-len(*x):], *x):]
	return room[:0]
}

// TestAPublishedValueMaskIsNotABatchsMaskToo: the next call with the same result would
// overwrite the mask that it reads.
func TestAPublishedValueMaskIsNotABatchsMaskToo(t *testing.T) {
	onceEach(t, func(t *testing.T, spec Spec, est Estimator) {
		if !spec.ValueMask {
			return
		}
		for what, put := range map[string]func(b *Batch, m []bool){
			"attention": func(b *Batch, m []bool) { b.Attention = m },
			"loss":      func(b *Batch, m []bool) { b.Loss = m },
			"gae":       func(b *Batch, m []bool) { b.GAE = m },
			"turn_end":  func(b *Batch, m []bool) { b.TurnEnd = m },
		} {
			out, b := run(t, est, good()), good()
			put(b, out.ValueMask)
			refuse(t, what, est.Estimate(out, b), ErrOverlap, "value mask: same memory as "+what)
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
