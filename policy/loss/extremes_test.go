package loss

import (
	"maps"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/floats"
)

// one is a batch of one token.
func one(logRatio, adv float64) *Batch[float64] {
	return &Batch[float64]{
		Offsets: []int{0, 1}, Mask: []bool{true},
		LogProb: []float64{-2 + logRatio}, OldLogProb: []float64{-2}, Advantage: []float64{adv},
	}
}

func TestLogRatiosAreBoundedAtTwenty(t *testing.T) {
	for _, c := range []struct {
		logRatio, adv float64
		p             Policy
		loss, grad    float64
	}{
		{19, -1, PPO{Low: 0.2, High: 0.2, Clamp: true}, math.Exp(19), math.Exp(19)},
		{30, -1, PPO{Low: 0.2, High: 0.2, Clamp: true}, math.Exp(20), 0},
		{30, -1, PPO{Low: 0.2, High: 0.2}, math.Exp(30), math.Exp(30)},
		{30, -1, LitePPO(), 3, 0},
		{30, 1, CISPO{Low: 1, High: 0.5}, -1.5 * 28, -1.5},
		{-30, 1, CISPO{Low: 1, High: 0.5}, 32 * math.Exp(-20), -math.Exp(-20)},
		{-30, 1, SAPO{TauPos: 1, TauNeg: 1}, -4 / (1 + math.Exp(1-math.Exp(-20))), 0},
		{10, -1, GSPO{Low: 0.2, High: 0.2}, math.Exp(10), math.Exp(10)},
		{20, -1, PPO{Low: 0.2, High: 0.2, Clamp: true}, math.Exp(20), math.Exp(20)},
		{12, -1, GSPO{Low: 0.2, High: 0.2}, math.Exp(10), 0},
		{9, -1, GSPO{Low: 0.2, High: 0.2}, math.Exp(9), math.Exp(9)},
	} {
		got := mustEval(t, c.p, Aggregation{}, one(c.logRatio, c.adv))
		near(t, "loss", got.Loss, c.loss, 1e-9)
		near(t, "gradient", got.Grad[0], c.grad, 1e-9)
	}
}

func TestMetricsReportTheLogRatioThatWasUsed(t *testing.T) {
	clamped := []Policy{PPO{Low: 0.2, High: 0.2, Clamp: true}, CISPO{Low: 1, High: 0.5}, DefaultSAPO()}
	for _, p := range clamped {
		m := mustEval(t, p, Aggregation{}, one(-50, 1)).Metrics
		near(t, "KL", m.KL, 20, 1e-12)
		near(t, "KL", mustEval(t, p, Aggregation{}, one(50, 1)).Metrics.KL, -20, 1e-12)
	}
	m := mustEval(t, LegacyPPO(), Aggregation{}, one(-50, 1)).Metrics
	near(t, "KL", m.KL, 50, 1e-12)
	near(t, "ratio is capped for the record", m.RatioMin, math.Exp(-20), 1e-12)
}

func TestMetricsAreThoseOfTheirFormulas(t *testing.T) {
	nan := math.NaN()
	b := &Batch[float64]{
		Offsets: []int{0, 1, 4}, Mask: []bool{true, true, false, true}, LogProb: []float64{-1, -1, nan, -1},
		OldLogProb: []float64{-1.5, -0.8, nan, -1}, Advantage: []float64{1, 1, nan, -1},
	}
	m := mustEval(t, LegacyPPO(), Aggregation{}, b).Metrics
	up, down := math.Exp(0.5), math.Exp(-0.2)
	near(t, "KL", m.KL, (-0.5+0.2)/3, 1e-12)
	near(t, "absolute KL", m.AbsKL, 0.7/3, 1e-12)
	near(t, "k3", m.K3, (up-1-0.5+down-1+0.2)/3, 1e-12)
	near(t, "mean ratio", m.RatioMean, (up+down+1)/3, 1e-12)
	near(t, "smallest ratio", m.RatioMin, down, 1e-12)
	near(t, "largest ratio", m.RatioMax, up, 1e-12)
	near(t, "clip fraction", m.ClipFraction, 1.0/3, 1e-12)
	require.Equal(t, []int{3, 2}, []int{m.Tokens, m.Rows})
	seen := map[string]bool{}
	for name, v := range m.All() {
		require.False(t, seen[name], name)
		require.True(t, floats.Finite(v), name)
		seen[name] = true
	}
	require.Len(t, seen, 10, "without the three of turn losses")
	all := maps.Collect(Metrics{RefKL: 1, TurnsPerRow: 2, TurnLength: 3, TurnLogRatioStd: 4}.All())
	require.Len(t, all, 14)
	require.Equal(t, 10.0, all["actor/kl_loss"]+all["actor/turns_per_row"]+all["actor/turn_len_mean"]+
		all["actor/turn_log_ratio_std"])
	for range m.All() {
		break
	}
}

func TestATieTakesTheMeanOfBothSides(t *testing.T) {
	// v = 1 and its clipped value 0 are equally far from the return ½.
	_, slope, _ := Value{Clip: 0}.Of(1, 0, 0.5)
	near(t, "gradient", slope, 0.25, 0) // ½·(0.5 + 0)
	// The dual clip meets the ratio at exactly 2.
	d := one(math.Log(2), -1)
	if ratio := math.Exp(d.LogProb[0] - d.OldLogProb[0]); ratio == 2 {
		near(t, "gradient", mustEval(t, PPO{Low: 0.2, High: 0.2, Dual: 2}, Aggregation{}, d).Grad[0], 1, 1e-12)
	}
}

func TestKLCovTakesTheEarlierOfEqualCovariances(t *testing.T) {
	b := &Batch[float64]{Offsets: []int{0, 600}}
	for i := range 600 {
		x := float64(i*7%3) - 1 // −1, 0, 1: covariances 1, 0, 1, with 400 equal ones
		b.add(true, x-3, x-3.5, x, 1, 0, 0)
	}
	got := mustEval(t, KLCov{Ratio: 0.25, Coef: 1}, Aggregation{}, b)
	free := mustEval(t, KLCov{Ratio: 0.25, Coef: 0}, Aggregation{}, b)
	left := 150
	for i := range got.Grad {
		want := b.Advantage[i] != 0 && left > 0
		if want {
			left--
		}
		require.Equal(t, want, got.Grad[i] != free.Grad[i], "token %d penalised", i)
	}
}
