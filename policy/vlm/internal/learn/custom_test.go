package learn_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// ownPPO implements the clipped surrogate with a dual clip again, without saying that it is local.
type ownPPO struct{ low, high, dual float64 }

func (p ownPPO) Terms(t *loss.Terms, b *loss.Batch[float64]) error {
	for i, m := range b.Mask {
		if !m {
			continue
		}
		a, ratio := b.Advantage[i], math.Exp(b.LogProb[i]-b.OldLogProb[i])
		l, slope := -a*ratio, -a*ratio
		if c := -a * min(max(ratio, 1-p.low), 1+p.high); c > l {
			l, slope = c, 0
			t.Clipped++
		}
		if a < 0 && l > -a*p.dual {
			l, slope = -a*p.dual, 0
			t.ClippedLower++
		}
		t.Loss[i], t.Slope[i] = l, slope
	}
	return nil
}

// TestACustomLossUpdatesLikeTheBuiltInOne takes one optimiser step from the same weights
// with a built-in loss and with the same formula as a custom type, with entropy, KL and
// value terms and rollout weights. The first moment of the optimiser is the gradient;
// the two are evaluated before and after the step's first backward pass.
func TestACustomLossUpdatesLikeTheBuiltInOne(t *testing.T) {
	dir := Folder(t, model.Qwen3, nil)
	var grads [2]map[string][]float32
	var stats [2]policy.Stats
	for i, p := range []loss.Policy{loss.PPO{Low: 0.1, High: 0.15, Dual: 1.3, Clamp: true}, ownPPO{0.1, 0.15, 1.3}} {
		m := Open(t, dir, Options{MicroTokens: 32, Critic: learn.SharedCritic})
		o := policy.Objective{Policy: p, Temperature: 0.8, KL: loss.K3, KLCoef: 0.2, EntropyCoef: 0.05, ValueCoef: 0.5}
		b, mask, _ := lossBatch(t, m, o.Temperature)
		weigh(t, b, o, mask)
		b.ValueWeight, b.Returns = b.Weight, make([]float32, len(mask))
		grads[i], _, stats[i] = gradientsOf(t, m, b, o)
	}
	requireGradients(t, grads[0], grads[1])
	for what, x := range map[string][2]float64{
		"policy loss": {stats[0].PolicyLoss, stats[1].PolicyLoss}, "KL": {stats[0].KL, stats[1].KL},
		"ratio": {stats[0].RatioMax, stats[1].RatioMax}, "approximate KL": {stats[0].ApproxKL, stats[1].ApproxKL},
		"clipped": {stats[0].ClipFrac, stats[1].ClipFrac}, "entropy": {stats[0].Entropy, stats[1].Entropy},
		"value loss": {stats[0].ValueLoss, stats[1].ValueLoss}, "norm": {stats[0].GradNorm, stats[1].GradNorm},
	} {
		require.NotZero(t, x[0], what)
		require.InDelta(t, x[0], x[1], 1e-4*(1+math.Abs(x[0])), what)
	}
	require.Contains(t, stats[1].Metrics, "actor/pg_clipfrac")
}
