package loss

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// twoRows has ratios 2, ½, 1 and e², with a token of context in between.
func twoRows() *CorrectionBatch[float64] {
	return &CorrectionBatch[float64]{
		Offsets: []int{0, 3, 5, 5}, Mask: []bool{true, false, true, true, true},
		Trainer: []float64{-1, math.NaN(), -1 - math.Ln2, -1, -1},
		Rollout: []float64{-1 - math.Ln2, math.NaN(), -1, -1, -3},
	}
}

func correct(t *testing.T, c Correction, b *CorrectionBatch[float64]) *Corrected {
	t.Helper()
	var got Corrected
	require.NoError(t, Correct(&got, c, b))
	return &got
}

func TestWeightsAreTruncatedPerTokenOrPerRow(t *testing.T) {
	token := correct(t, Correction{Weight: TokenLevel, Threshold: 1.5}, twoRows())
	require.Equal(t, []float32{1.5, 0, 0.5, 1, 1.5}, token.Weight, "token weights")
	near(t, "share truncated", token.Metrics.Truncated, 0.5, 0)
	swapped := twoRows()
	swapped.Trainer, swapped.Rollout = swapped.Rollout, swapped.Trainer
	near(t, "largest log-ratio", correct(t, Correction{}, swapped).Metrics.LogRatio, 2, 1e-12)
	near(t, "share low", token.Metrics.Low, 0.25, 0)
	near(t, "largest weight before truncation", token.Metrics.WeightMax, math.Exp(2), 1e-12)
	near(t, "smallest weight", token.Metrics.WeightMin, 0.5, 1e-12)
	// (1.5+0.5+1+1.5)² / (4·(2.25+0.25+1+2.25))
	near(t, "effective size", token.Metrics.EffectiveSize, 4.5*4.5/(4*5.75), 1e-12)

	row := correct(t, Correction{Weight: SequenceLevel, Threshold: 3}, twoRows())
	require.Equal(t, []float32{1, 0, 1, 3, 3}, row.Weight, "row weights")
	near(t, "share of rows truncated", row.Metrics.Truncated, 0.5, 0)

	none := correct(t, Correction{}, twoRows())
	require.Nil(t, none.Weight)
	require.Zero(t, none.Metrics.WeightMean)
}

// TestWeightsOutsideBothBoundsAreDropped where there is a lower one: the ratios of
// tokens are 2, ½, 1 and e², those of rows 1 and e².
func TestWeightsOutsideBothBoundsAreDropped(t *testing.T) {
	token := correct(t, Correction{Weight: TokenLevel, Threshold: 2, Lower: 0.4999}, twoRows())
	require.Equal(t, []float32{2, 0, 0.5, 1, 0}, token.Weight, "what is within the bounds stays")
	require.Equal(t, twoRows().Mask, token.Mask, "dropped weights stay in averages")
	token = correct(t, Correction{Weight: TokenLevel, Threshold: 3, Lower: 1}, twoRows())
	require.Equal(t, []float32{2, 0, 0, 1, 0}, token.Weight, "token weights")
	near(t, "share above", token.Metrics.Truncated, 0.25, 0)
	near(t, "share below the lower bound", token.Metrics.Low, 0.25, 0)
	near(t, "effective size", token.Metrics.EffectiveSize, 3*3/(4*5.0), 1e-12)

	row := correct(t, Correction{Weight: SequenceLevel, Threshold: 3, Lower: 0.5, Normalize: true}, twoRows())
	require.Equal(t, []float32{2, 0, 2, 0, 0}, row.Weight, "their mean is 1")
	none := correct(t, Correction{Weight: TokenLevel, Threshold: 20, Lower: 10, Normalize: true}, twoRows())
	require.Equal(t, make([]float32, 5), none.Weight, "all dropped")
	require.Zero(t, none.Metrics.EffectiveSize+none.Metrics.NormFactor)
}

func TestBoundsAreReadInVerlsNotation(t *testing.T) {
	for text, want := range map[string][2]float64{"2": {0, 2}, " 1e-6 ": {0, 1e-6}, "0.5_5": {0.5, 5}, "0.5_5.0": {0.5, 5},
		"3_3": {3, 3}} {
		lower, upper, err := ParseBounds(text)
		require.NoError(t, err, text)
		require.Equal(t, want, [2]float64{lower, upper}, text)
	}
	for _, text := range []string{"", "x", "2_1", "0_1", "-1_1", "_2", "2_", "1_2_3", "NaN_2", "0.5_x"} {
		_, _, err := ParseBounds(text)
		require.ErrorIs(t, err, ErrSetting, text)
	}
	for _, lower := range []float64{-1, 3, math.NaN(), math.Inf(1)} {
		c := Correction{Weight: TokenLevel, Threshold: 2, Lower: lower}
		require.ErrorIs(t, Correct(new(Corrected), c, twoRows()), ErrSetting, "lower %v", lower)
	}
}

func TestRejectionTakesTokensOrRowsOutOfTheMask(t *testing.T) {
	for _, c := range []struct {
		rules, limits string
		want          []bool
	}{
		{"token_k1", "0.4_2.5", []bool{true, false, true, true, false}},
		{"token_k1", "0.1_10", []bool{true, false, true, true, true}},
		{"seq_max_k1", "0.4_2.5", []bool{true, false, true, false, false}}, // one token outside the bounds excludes its row
		{"seq_sum_k1", "0.9_1.1", []bool{true, false, true, false, false}}, // row 0 cancels out
		{"seq_max_k2", "0.1", []bool{false, false, false, false, false}},
		{"seq_mean_k2,token_k1", "0.3,0.9_3", []bool{false, false, true, false, false}},
	} {
		rules, err := ParseRejections(c.rules, c.limits)
		require.NoError(t, err)
		got := correct(t, Correction{Reject: rules}, twoRows())
		require.Equal(t, c.want, got.Mask, "%s %s: mask", c.rules, c.limits)
		lost := 4 - countTrue(c.want)
		near(t, "share rejected", got.Metrics.Rejected, float64(lost)/4, 0)
	}
}

func TestDivergenceOfEqualPoliciesIsZero(t *testing.T) {
	b := twoRows()
	b.Rollout = b.Trainer
	got := correct(t, DefaultCorrection(), b)
	m := got.Metrics
	require.Equal(t, []float64{0, 0, 0, 0, 0, 1, 1},
		[]float64{m.KL, m.K3, m.Chi2, m.Chi2Rows, m.LogRatio, m.WeightMean, m.EffectiveSize})
	require.Equal(t, m.TrainerLogPPL, m.RolloutLogPPL)
	require.Positive(t, m.TrainerLogPPL)
}

func TestCorrectionOfNothingIsZero(t *testing.T) {
	b := twoRows()
	clear(b.Mask)
	c := DefaultCorrection()
	c.Normalize = true
	c.Reject = []Rejection{{Over: SeqMean, Divergence: 1, Lower: 0.5, Upper: 2}}
	got := correct(t, c, b)
	require.Zero(t, got.Metrics)
	require.Equal(t, make([]float32, 5), got.Weight)
	require.NotContains(t, got.Mask, true)
}

func TestRejectionsAreReadInVerlsNotation(t *testing.T) {
	got, err := ParseRejections(" token_k1, seq_mean_k3 ,token_k1", "2")
	require.NoError(t, err)
	require.Equal(t, []Rejection{{Token, 1, 0.5, 2}, {SeqMean, 3, 0, 2}}, got)
	for _, name := range rejectionNames() {
		r, err := ParseRejections(name, "1.5")
		require.NoError(t, err, name)
		require.Equal(t, name, r[0].String())
	}
	for _, c := range []struct {
		names, limits string
		want          error
	}{
		{"", "1", ErrSetting},
		{"token_k1", "", ErrSetting},
		{"token_k1,token_k2", "1,2,3", ErrSetting},
		{"token_k4", "1", ErrUnknown},
		{"token_k2", "0.5_2", ErrSetting},
		{"token_k1", "2_0.5", ErrSetting},
		{"token_k1", "0_2", ErrSetting},
		{"token_k1", "a_2", ErrSetting},
		{"token_k3", "x", ErrSetting},
		{"token_k3", "-1", ErrSetting},
		{"token_k3", "NaN", ErrSetting},
	} {
		_, err := ParseRejections(c.names, c.limits)
		require.ErrorIs(t, err, c.want, "%q %q", c.names, c.limits)
	}
	_, err = ParseRejections("token_k3", "x")
	require.ErrorContains(t, err, "want a number")
	_, err = ParseRejections("token_k1", "a_2")
	require.ErrorContains(t, err, "want lower_upper")
	_, err = ParseRejections("seq_men_k1", "2")
	require.ErrorContains(t, err, `"seq_mean_k1"`)
}

func TestCorrectionsOutOfRangeAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		c    Correction
		want error
	}{
		"level":      {Correction{Weight: "row", Threshold: 2}, ErrUnknown},
		"threshold":  {Correction{Weight: TokenLevel}, ErrSetting},
		"over":       {Correction{Reject: []Rejection{{Divergence: 1, Lower: 1, Upper: 1}}}, ErrUnknown},
		"divergence": {Correction{Reject: []Rejection{{Over: Token, Upper: 1}}}, ErrSetting},
		"another":    {Correction{Reject: []Rejection{{Over: Token, Divergence: 4, Upper: 1}}}, ErrSetting},
		"upper":      {Correction{Reject: []Rejection{{Over: Token, Divergence: 2}}}, ErrSetting},
		"lower":      {Correction{Reject: []Rejection{{Over: Token, Divergence: 1, Upper: 2}}}, ErrSetting},
	} {
		var got Corrected
		require.ErrorIs(t, Correct(&got, c.c, twoRows()), c.want, name)
	}
	for name, spoil := range map[string]func(*CorrectionBatch[float64]) error{
		"trainer": func(b *CorrectionBatch[float64]) error { b.Trainer[0] = math.Inf(1); return ErrNotFinite },
		"overflow": func(b *CorrectionBatch[float64]) error {
			b.Trainer[0], b.Rollout[0] = 1e308, -1e308
			return ErrNotFinite
		},
		"NaN":     func(b *CorrectionBatch[float64]) error { b.Rollout[4] = math.NaN(); return ErrNotFinite },
		"length":  func(b *CorrectionBatch[float64]) error { b.Rollout = b.Rollout[:3]; return ErrLength },
		"offsets": func(b *CorrectionBatch[float64]) error { b.Offsets = b.Offsets[:2]; return ErrLength },
		"missing": func(b *CorrectionBatch[float64]) error { b.Rollout = nil; return ErrMissing },
	} {
		b := twoRows()
		want := spoil(b)
		var got Corrected
		require.ErrorIs(t, Correct(&got, DefaultCorrection(), b), want, name)
	}
}

// TestBoundsOfSmallBatchesAndWeights: one token, weights below 1, and tokens at a bound.
func TestBoundsOfSmallBatchesAndWeights(t *testing.T) {
	quarter := correct(t, Correction{Weight: TokenLevel, Threshold: 0.25, Lower: 0.25}, twoRows())
	require.Equal(t, make([]float32, 5), quarter.Weight)
	quarter = correct(t, Correction{Weight: TokenLevel, Threshold: 0.25}, twoRows())
	near(t, "effective size", quarter.Metrics.EffectiveSize, 1, 1e-12)
	atOne := correct(t, Correction{Weight: TokenLevel, Threshold: 1}, twoRows())
	near(t, "share above 1", atOne.Metrics.Truncated, 0.5, 0)
	single := &CorrectionBatch[float64]{Offsets: []int{0, 1}, Mask: []bool{true}, Trainer: []float64{-1},
		Rollout: []float64{-3}}
	for _, c := range []struct {
		names, limits string
		b             *CorrectionBatch[float64]
		want          []bool
	}{
		{"token_k1", "1_3", twoRows(), []bool{false, false, true, true, false}}, // rollout over trainer: ½, 2, 1, e⁻²
		{"token_k1", "0.1_1", twoRows(), []bool{true, false, false, true, true}},
		{"token_k1", "1_1", twoRows(), []bool{false, false, false, true, false}},
		{"token_k2", "2", twoRows(), []bool{true, false, true, true, true}},
		{"seq_mean_k2", "1.9", single, []bool{false}},
	} {
		rules, err := ParseRejections(c.names, c.limits)
		require.NoError(t, err)
		got := correct(t, Correction{Reject: rules}, c.b)
		require.Equal(t, c.want, got.Mask, "%s %s", c.names, c.limits)
		near(t, "share", got.Metrics.Rejected, 1-float64(countTrue(c.want))/float64(countTrue(c.b.Mask)), 1e-12)
	}
}

func TestAReusedCorrectionHoldsNoOldValues(t *testing.T) {
	var used Corrected
	context := twoRows()
	context.Mask[0] = false
	for _, c := range []struct {
		c Correction
		b *CorrectionBatch[float64]
	}{{DefaultCorrection(), twoRows()}, {DefaultCorrection(), context}, {Correction{}, twoRows()}} {
		require.NoError(t, Correct(&used, c.c, c.b))
		want := correct(t, c.c, c.b)
		require.Equal(t, want.Weight, used.Weight)
		require.Equal(t, want.Metrics, used.Metrics)
	}
}
