package loss

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// climbing has covariances 4, 1, 0, 1, 4 around the mean, on-policy.
func climbing() *Batch[float64] {
	logp := []float64{-5, -4, -3, -2, -1}
	return &Batch[float64]{
		Offsets: []int{0, 5}, Mask: slices.Repeat([]bool{true}, 5),
		LogProb: logp, OldLogProb: slices.Clone(logp), Advantage: []float64{-2, -1, 0, 1, 2},
	}
}

func TestClipCovDropsOnlyCandidatesAndOnlyItsShare(t *testing.T) {
	p := ClipCov{Low: 0.2, High: 0.2, Ratio: 0.4, CovLow: 0.5, CovHigh: 3}
	dropped := map[int]int{}
	for seed := range uint64(40) {
		b := climbing()
		b.Seed = seed
		p.Ratio = 0.2 // one of five
		got := mustEval(t, p, Aggregation{}, b)
		again := mustEval(t, p, Aggregation{}, b)
		require.Equal(t, again.Grad, got.Grad, "one seed, two choices")
		near(t, "clip fraction", got.Metrics.ClipFraction, 0.2, 1e-12)
		for i, g := range got.Grad {
			if g == 0 && b.Advantage[i] != 0 {
				dropped[i]++
			}
		}
	}
	require.Len(t, dropped, 2)
	require.Greater(t, min(dropped[1], dropped[3]), 4, "each is dropped now and then")
	p.CovLow, p.CovHigh = 10, 20
	require.Zero(t, mustEval(t, p, Aggregation{}, climbing()).Metrics.ClipFraction, "there is no candidate")
	p.Ratio, p.CovLow, p.CovHigh = 1, 1, 4
	require.Zero(t, mustEval(t, p, Aggregation{}, climbing()).Metrics.ClipFraction, "tokens at the limits are kept")
}

func TestClipCovLeavesTokensThatPPOClipped(t *testing.T) {
	b := climbing()
	b.LogProb[3] += 0.5 // advantage 1, ratio 1.65: clipped
	p := ClipCov{Low: 0.2, High: 0.2, Ratio: 1, CovLow: 0.1, CovHigh: 30}
	want := mustEval(t, PPO{Low: 0.2, High: 0.2}, Aggregation{}, b)
	got := mustEval(t, p, Aggregation{}, b)
	near(t, "loss", got.Loss, -1.2/5, 1e-12) // only the clipped token is left
	require.Zero(t, want.Grad[3])
	require.Equal(t, 3.0/5, got.Metrics.ClipFraction, "the three candidates")
}

func TestKLCovPenalisesTheLargestCovariancesEarlierFirst(t *testing.T) {
	b := climbing()
	for i := range b.OldLogProb {
		b.OldLogProb[i] -= 0.1
	}
	near(t, "on-policy", mustEval(t, KLCov{Ratio: 1, Coef: 0.5}, Aggregation{}, one(0, 1)).Grad[0], -1, 0)
	free := mustEval(t, KLCov{Ratio: 0.2, Coef: 0}, Aggregation{}, b)
	for n, want := range [][]int{{0}, {0}, {0, 4}, {0, 1, 4}} {
		got := mustEval(t, KLCov{Ratio: max(0.1, 0.2*float64(n)), Coef: 0.5}, Aggregation{}, b)
		var hit []int
		for i := range got.Grad {
			if got.Grad[i] != free.Grad[i] {
				hit = append(hit, i)
				near(t, "penalty", got.Grad[i]-free.Grad[i], 0.5/5, 1e-12)
			}
		}
		require.Equal(t, want, hit, "share %d/5 penalised", n)
	}
}
