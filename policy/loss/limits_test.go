package loss

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
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
		if Local(c.loss) != c.local {
			t.Errorf("%+v: local: %v", c.loss, !c.local)
		}
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
