package loss

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// TestTokensAtALimitAreKept: comparisons with limits are those of the originals, of which none drops a token whose
// distance equals the limit.
func TestTokensAtALimitAreKept(t *testing.T) {
	for _, c := range []struct {
		loss       PrimeDPPO
		moved, adv float64
		drops      bool
	}{
		{PrimeDPPO{Low: 0.25, High: 0.5}, 0.5, 1, false},
		{PrimeDPPO{Low: 0.25, High: 0.5}, 0.75, 1, true},
		{PrimeDPPO{Low: 0.25, High: 0.5}, -0.75, 1, false},
		{PrimeDPPO{Low: 0.25, High: 0.5}, -0.25, -1, false},
		{PrimeDPPO{Low: 0.25, High: 0.5}, -0.5, -1, true},
		{PrimeDPPO{Low: 0.25, High: 0.5}, -0.5, 0, true},
		{PrimeDPPO{Low: 0.25, High: 0.5, Falling: true}, 0.75, 1, false},
		{PrimeDPPO{High: 0.5, Symmetric: true}, -0.5, 1, false},
		{PrimeDPPO{High: 0.5, Symmetric: true}, -0.75, 1, true},
	} {
		require.Equal(t, c.drops, c.loss.drops(c.moved, c.adv), "%+v", c)
	}
	half := math.Log(0.5)
	for _, c := range []struct {
		loss          DPPO
		now, old, adv float64
		keeps         bool
	}{
		{DPPO{High: 0.5}, 0, half, 1, true},
		{DPPO{High: 0.4375}, 0, half, 1, false},
		{DPPO{Low: 0.5}, half, 0, -1, true},
		{DPPO{Low: 0.4375}, half, 0, -1, false},
		// From one half to certainty the divergence is ½ ln ½ + ½ ln(½/1e-8) = 8.517, by the number that is added.
		{DPPO{High: 8.5, KL: true}, 0, half, 1, false},
		{DPPO{High: 8.53, KL: true}, 0, half, 1, true},
		{DPPO{KL: true}, half, 0, 1, true},
		{DPPO{KL: true}, 0, half, -1, true},
		// Back it is ln 2 + 1e-8·…
		{DPPO{Low: 0.6931, KL: true}, half, 0, -1, false},
		{DPPO{Low: 0.6932, KL: true}, half, 0, -1, true},
	} {
		require.Equal(t, c.keeps, c.loss.keeps(c.now, c.old, c.adv), "%+v", c)
	}
}

// TestTheDriftOfARowIsItsMean, compared as TRL does: three times 0.1 have the mean 0.10000000000000002.
func TestTheDriftOfARowIsItsMean(t *testing.T) {
	for delta, dropped := range map[float64]bool{0.1: true, 0.10000000000000002: false} {
		b := &Batch[float64]{
			Offsets: []int{0, 1, 4}, Mask: []bool{false, true, true, true}, LogProb: []float64{9, -0.1, -0.1, -0.1},
			OldLogProb: []float64{9, 0, 0, 0}, Advantage: []float64{-1, -1, -1, -1},
		}
		got := mustEval(t, OffPolicyMask{Policy: Reinforce{}, Delta: delta}, Aggregation{}, b)
		require.Equal(t, dropped, got.Loss == 0, "delta %v", delta)
	}
}

// TestLUSPOCountsRowsOutsideTheRange, after Delta, in the direction of their advantage.
func TestLUSPOCountsRowsOutsideTheRange(t *testing.T) {
	up := math.Log(1.5)
	for _, c := range []struct {
		loss           LUSPO
		logRatio, adv  float64
		clipped, value float64
	}{
		{LUSPO{Low: 0.1, High: 0.1}, up, 1, 1, -1.1},
		{LUSPO{Low: 0.1, High: 0.1}, up, -1, 0, 1.5},
		{LUSPO{Low: 0.1, High: 0.1}, -up, -1, 1, 0.9},
		{LUSPO{Low: 0.1, High: 0.1}, -up, 1, 0, -1 / 1.5},
		{LUSPO{Low: 0.1, High: 0.1, Delta: 1.1}, up, 1, 0, -1.1}, // at the limit
		{LUSPO{Low: 0.1, High: 0.1, Delta: 1.2}, up, -1, 0, 1.2},
		{LUSPO{Low: 0.1, High: 0.6}, up, 1, 0, -1.5},
		{LUSPO{Low: 0.1, High: 0.1}, up, 0, 0, 0},
		{LUSPO{Low: 0.1, High: 0.1}, -up, 0, 0, 0},
	} {
		got := mustEval(t, c.loss, Aggregation{}, one(c.logRatio, c.adv))
		near(t, "clipped", got.Metrics.ClipFraction, c.clipped, 0)
		near(t, "loss", got.Loss, c.value, 1e-9)
	}
}

// TestDistillationIsLocalIfItsLossIs: without one, tokens are independent.
func TestDistillationIsLocalIfItsLossIs(t *testing.T) {
	for _, c := range []struct {
		loss  Policy
		local bool
	}{
		{Distill{KL: K2}, true}, {Distill{KL: K1, Policy: LegacyPPO()}, true},
		{Distill{KL: K1, Policy: GSPO{Low: 0.1, High: 0.1}}, false},
	} {
		require.Equal(t, c.local, Local(c.loss), "%+v", c.loss)
	}
	require.True(t, Sampled(Distill{KL: K1, Policy: PrimeDPPO{}}))
	require.False(t, Sampled(Distill{KL: K2}))
}

// TestMaskedTokensAreCountedOnce, also if their loss has dropped them already.
func TestMaskedTokensAreCountedOnce(t *testing.T) {
	for _, inner := range []Policy{Reinforce{}, LegacyPPO()} {
		got := mustEval(t, OffPolicyMask{Policy: inner, Delta: 0.01}, Aggregation{}, one(-0.5, -1))
		near(t, "dropped", got.Metrics.ClipFraction, 1, 0)
	}
}

// TestMaskedTokensHaveNoDerivatives, of the numbers that they are compared by, either.
func TestMaskedTokensHaveNoDerivatives(t *testing.T) {
	d := Divergence{Form: Raised, Choice: Choice{ByTeacher, 4}, Floor: -3}
	b := comparedBatch(5, d)
	for i := range b.LogProb {
		b.OldLogProb[i], b.Advantage[i] = b.LogProb[i]+1, -1
	}
	got := mustEval(t, Distill{Over: d}, Aggregation{}, b)
	require.True(t, slices.ContainsFunc(got.GradChosen, func(x float64) bool { return x != 0 }))
	got = mustEval(t, OffPolicyMask{Policy: Distill{Over: d}, Delta: 0.01}, Aggregation{}, b)
	require.Equal(t, make([]float64, len(b.Chosen)), got.GradChosen)
}

// TestRangesIncludeTheirLimits: neither gradient nor count change at a limit, as in PyTorch's clamp.
func TestRangesIncludeTheirLimits(t *testing.T) {
	for _, x := range []float64{-1, 2} {
		v, pass := clamp(x, -1, 2)
		require.Equal(t, []float64{x, 1}, []float64{v, pass})
	}
	ratio := math.Exp(0.5)
	for _, c := range []struct {
		p             Policy
		logRatio, adv float64
		loss, grad    float64
	}{
		{DPPO{High: 1}, 0.5, 1, 1.5 * ratio, -ratio},
		{DPPO{High: 1, Cap: ratio}, 0.5, 1, 1.5 * ratio, -ratio},
		{PPO{Low: 0.2, High: 0.2, Dual: ratio}, 0.5, -1, ratio, ratio / 2},
		{LUSPO{High: 1, Delta: ratio}, 0.5, 1, -ratio, -ratio},
		{LUSPO{Low: 0.9, Delta: 0.5}, 0, 1, -0.5, 0},
		{LUSPO{Low: 0.1, High: 0.1}, 0, -1, 1, 1},
		{LUSPO{}, 0, -1, 1, 1},
		{OffPolicyMask{Policy: Reinforce{}, Delta: 0.5}, -0.5, -1, -2.5, 1},
		{OffPolicyMask{Policy: DRO{Beta: 1}}, -0.5, 0, 0.125, -0.5},
	} {
		got := mustEval(t, c.p, Aggregation{}, one(c.logRatio, c.adv))
		near(t, "loss", got.Loss, c.loss, 1e-12)
		near(t, "gradient", got.Grad[0], c.grad, 1e-12)
		require.Zero(t, got.Metrics.ClipFraction+got.Metrics.ClipFractionLower, "%+v", c)
	}
}

// TestLUSPOWithAKL by hand: s is the ratio of the row, and the KL's slope has that of s, shared by both tokens.
func TestLUSPOWithAKL(t *testing.T) {
	b := &Batch[float64]{Offsets: []int{0, 2}, Mask: []bool{true, true}, LogProb: []float64{-1, -2},
		OldLogProb: []float64{-1.2, -2.1}, Advantage: []float64{1, -1}, Weight: []float64{2, 3},
		Ref: []float64{-1.5, -1.8}}
	s := math.Exp(0.15)
	got := mustEval(t, LUSPO{Low: 0.05, High: 0.05, KL: K1, KLCoef: 0.3}, Aggregation{}, b)
	near(t, "loss", got.Loss, -2*1.05+3*s+0.3*s*(0.5-0.2), 1e-12)
	near(t, "gradient of the clipped token", got.Grad[0], 0.3*s+0.3*s*0.3/2, 1e-12)
	near(t, "gradient of the other", got.Grad[1], 3*s+0.3*s+0.3*s*0.3/2, 1e-12)
	near(t, "KL", got.Metrics.RefKL, s*0.3/2, 1e-12)
}

// TestVESPOBoundsWeights per token at exp(20), and drops rows whose weight overflows.
func TestVESPOBoundsWeights(t *testing.T) {
	b := one(-20, 1)
	b.Weight = []float64{math.Exp(21)}
	near(t, "gradient", mustEval(t, DefaultVESPO(), Aggregation{}, b).Grad[0], -1, 1e-12)
	near(t, "overflow", mustEval(t, VESPO{KPos: 1e4}, Aggregation{}, one(20, 1)).Grad[0], 0, 0)
}

// TestAWeightOfZeroDoesNotRemoveItsRow: verl adds 1e-10 to the weights of the geometric mean.
func TestAWeightOfZeroDoesNotRemoveItsRow(t *testing.T) {
	b := randomBatch(1)
	b.Offsets, b.Weight = []int{0, len(b.Mask)}, slices.Repeat([]float64{1}, len(b.Mask))
	p, n := GMPO{Low: 0.4, High: 0.4}, float64(countTrue(b.Mask))
	want := mustEval(t, p, Aggregation{}, b)
	b.Weight[slices.Index(b.Mask, true)] = 0
	got := mustEval(t, p, Aggregation{}, b)
	near(t, "loss", got.Loss, math.Pow(1e-10, 1/n)*want.Loss, 1e-9)
	for i, g := range got.Grad {
		near(t, "gradient", g, math.Pow(1e-10, 1/n)*want.Grad[i], 1e-9)
	}
}

// TestGMPOCountsBothDirections: tokens without advantage move nothing.
func TestGMPOCountsBothDirections(t *testing.T) {
	b := &Batch[float64]{Offsets: []int{0, 4}, Mask: []bool{true, true, true, true},
		LogProb: []float64{0.5, 0.5, 0.1, -0.5}, OldLogProb: make([]float64, 4), Advantage: []float64{3, 0, -1, -1}}
	got := mustEval(t, GMPO{Low: 0.2, High: 0.2}, Aggregation{}, b)
	near(t, "loss", got.Loss, -0.25*math.Exp((0.2+0+0.1-0.2)/4), 1e-12)
	allNear(t, "gradient", got.Grad, []float64{0, 0, got.Loss / 4, 0}, 1e-12)
	near(t, "clipped", got.Metrics.ClipFraction, 0.25, 0)
	near(t, "clipped at A < 0", got.Metrics.ClipFractionLower, 0.25, 0)
}

// TestM2POCountsDroppedTokens: a mean at the threshold is not below it.
func TestM2POCountsDroppedTokens(t *testing.T) {
	b := &Batch[float64]{Offsets: []int{0, 2}, Mask: []bool{true, true}, LogProb: []float64{-1, -1},
		OldLogProb: []float64{-1, -1}, Advantage: []float64{1, 1}, Sampled: []float64{-1.5, -0.5}}
	got := mustEval(t, M2PO{PPO: LegacyPPO(), Threshold: 0.25}, Aggregation{}, b)
	near(t, "dropped", got.Metrics.ClipFraction, 0.5, 0)
	near(t, "loss", got.Loss, -1, 1e-12)
}

// TestDistillationWithTheSlopeOfK2 keeps the value of its own estimate.
func TestDistillationWithTheSlopeOfK2(t *testing.T) {
	b := randomBatch(3)
	got := mustEval(t, Distill{KL: "k3+"}, Aggregation{}, b)
	near(t, "loss", got.Loss, mustEval(t, Distill{KL: K3}, Aggregation{}, b).Loss, 0)
	require.Equal(t, mustEval(t, Distill{KL: K2}, Aggregation{}, b).Grad, got.Grad)
	v, slope, err := NoKL.Of(1, 2)
	require.Equal(t, []any{0.0, 0.0, nil}, []any{v, slope, err})
	_, _, err = KL("full").Of(1, 2)
	testkit.Error(t, err, ErrUnknown, "full needs the logits")
}

// TestTheDistanceToATeacherIsMeasuredBeforeItsBound, alone and beside rewards.
func TestTheDistanceToATeacherIsMeasuredBeforeItsBound(t *testing.T) {
	d := Distill{KL: K1, Clamp: 0.5}
	b := &Batch[float64]{
		Offsets: []int{0, 3}, Mask: []bool{true, true, false}, LogProb: []float64{-1, -2, -3}, OldLogProb: []float64{-1, -2, -3},
		Ref: []float64{-4, -1, 0}, Advantage: []float64{1, 1, 1},
	}
	for _, p := range []Policy{d, Taught{Policy: LegacyPPO(), Distill: d, Coef: 1}} {
		m := mustEval(t, p, Aggregation{}, b).Metrics
		require.Equal(t, Distance{Abs: 2, Min: -1, Max: 3}, m.Teacher)
	}
}
