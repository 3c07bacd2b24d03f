package credit

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func pairsOf(claims, measured []float64) []pair {
	var out []pair
	for i := range claims {
		out = append(out, pair{i / 2, claims[i], measured[i]})
	}
	return out
}

// TestAgreementIsThatOfTheDefinitions on five turns, computed by hand.
func TestAgreementIsThatOfTheDefinitions(t *testing.T) {
	p := pairsOf([]float64{1, 2, 2, -1, 0}, []float64{2, 3, -1, -3, 1})
	require.Equal(t, []float64{2, 3.5, 3.5, 0, 1}, ranks([]float64{1, 2, 2, -1, 0}))
	// Means 0.8 and 0.4; Σ of products of deviations 7.4, of squares 6.8 and 23.2.
	require.InDelta(t, 7.4/math.Sqrt(6.8*23.2), pearson(p), 1e-12)
	// Best factor (2+6−2+3)/(1+4+4+1) = 0.9; errors 1.1, 1.2, −2.8, −2.1, 1.
	require.InDelta(t, (1.21+1.44+7.84+4.41+1)/5, scaledError(p), 1e-12)
	a := agreement(p, bootstrap(1, 3))
	require.Equal(t, 5, a.N)
	require.InDelta(t, 0.6, float64(a.Sign.Value), 1e-12, "a claim of 0 agrees with none")
	for _, f := range []Figure{a.Pearson, a.Spearman, a.MSE, a.Sign} {
		require.LessOrEqual(t, float64(f.Low), float64(f.Value))
		require.GreaterOrEqual(t, float64(f.High), float64(f.Value))
	}
	require.Equal(t, a, agreement(p, bootstrap(1, 3)))

	// The factor is never negative: claims of the wrong sign are worth as much as none.
	wrong := pairsOf([]float64{1, -1}, []float64{-1, 1})
	require.Equal(t, 1.0, scaledError(wrong))
	require.Equal(t, 1.0, scaledError(pairsOf([]float64{0, 0}, []float64{-1, 1})))
	require.InDelta(t, -1, pearson(wrong), 1e-12)
	require.True(t, math.IsNaN(pearson(pairsOf([]float64{0.1, 0.1}, []float64{-1, 1}))))
	require.Zero(t, agreement(nil, bootstrap(1, 0)).N)
}

func TestRegretIsCorrectedForTheNumberOfAlternatives(t *testing.T) {
	w := workTurn{Q: []Number{0, 1, 0, 1, 0, 1}, V: []Number{0, 1, 0, 1, 0, 1}}
	better := workAlternative{Q: []Number{1, 2, 0, 1, 1, 2}} // above by 1, 1, 0, 0, 1, 1
	m, why := w.measure()
	require.Empty(t, why)
	require.False(t, m.Decided)
	require.True(t, math.IsNaN(float64(m.Regret)))
	w.Alternatives = []workAlternative{better}
	m, _ = w.measure()
	require.InDelta(t, 4.0/6, float64(m.Regret), 1e-12)
	require.True(t, m.Significant)
	w.Alternatives = []workAlternative{{Q: w.Q}, {Q: w.Q}, better, {Q: w.Q}}
	m, _ = w.measure()
	require.InDelta(t, 4.0/6, float64(m.Regret), 1e-12)
	require.False(t, m.Significant)

	nan := Number(math.NaN())
	w = workTurn{Q: []Number{1, nan, 1}, V: []Number{nan, 0, 0}}
	_, why = w.measure()
	require.Equal(t, "only 1 of 3 pairs of continuations can be used", why)
	w = workTurn{Q: []Number{0.1 + 0.2, 0.1 + 0.2}, V: []Number{0.3, 0.3}}
	m, _ = w.measure()
	require.False(t, m.Decided, "rounding decides nothing")
}
