package reward

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNormalizerScalesEachScopeByItself(t *testing.T) {
	values := func() []float64 { return []float64{1, 10, 3, 30, 5} }
	keys := []string{"a", "b", "a", "b", "c"}

	batch := values()
	require.NoError(t, (&Normalizer{Center: true}).Apply(batch, nil))
	// Mean 9.8; deviation √(554.8/4).
	require.InDeltaSlice(t, []float64{-8.8 / 11.77710, 0.2 / 11.77710, -6.8 / 11.77710, 20.2 / 11.77710, -4.8 / 11.77710},
		batch, 1e-5)

	group := values()
	require.NoError(t, (&Normalizer{Scope: ByGroup, Center: true}).Apply(group, keys))
	half := 1 / math.Sqrt2 // two values lie half a difference from their mean, whose deviation is difference/√2
	require.InDeltaSlice(t, []float64{-half, -half, half, half, 5}, group, 1e-12)

	plain := values()
	require.NoError(t, (&Normalizer{Scope: ByEnvironment, Limit: 2}).Apply(plain, keys))
	require.InDeltaSlice(t, []float64{1 / math.Sqrt2, 1 / math.Sqrt2, 2, 2, 2}, plain, 1e-12, "also what is alone")
}

func TestNormalizerLeavesEqualValuesFinite(t *testing.T) {
	same := []float64{4, 4, 4}
	require.NoError(t, (&Normalizer{Center: true}).Apply(same, nil))
	require.Equal(t, []float64{0, 0, 0}, same)
	same = []float64{4, 4}
	require.NoError(t, (&Normalizer{}).Apply(same, nil))
	require.Equal(t, []float64{4, 4}, same)
}

func TestRunningNormalizerCanBeSavedAndRestored(t *testing.T) {
	all := []float64{1, 2, 4, 8, 16, 32}
	a := &Normalizer{Running: true, Center: true}
	require.NoError(t, a.Apply([]float64{1, 2, 4}, nil))

	saved, err := json.Marshal(a)
	require.NoError(t, err)
	b := &Normalizer{Running: true, Center: true}
	require.NoError(t, json.Unmarshal(saved, b))

	x, y := []float64{8, 16, 32}, []float64{8, 16, 32}
	require.NoError(t, a.Apply(x, nil))
	require.NoError(t, b.Apply(y, nil))
	require.Equal(t, x, y)

	whole := append([]float64(nil), all...)
	require.NoError(t, (&Normalizer{Center: true}).Apply(whole, nil))
	// Merging moments and adding values one by one round differently.
	require.InDeltaSlice(t, whole[3:], x, 1e-12)

	empty, err := json.Marshal(new(Normalizer))
	require.NoError(t, err)
	require.JSONEq(t, "{}", string(empty))
	require.Error(t, json.Unmarshal([]byte(`{"a":{"count":-1}}`), b))
	require.Error(t, json.Unmarshal([]byte(`[]`), b))
}

func TestNormalizerRefusesBadInputAndKeepsItsState(t *testing.T) {
	n := &Normalizer{Running: true}
	values := []float64{1, math.NaN()}
	require.ErrorContains(t, n.Apply(values, nil), "value 1 is NaN")
	require.Equal(t, 1.0, values[0])
	require.Empty(t, n.seen)
	require.ErrorContains(t, (&Normalizer{Scope: ByGroup}).Apply([]float64{1, 2}, []string{"a"}), "1 keys for 2 values")
	require.ErrorContains(t, (&Normalizer{Scope: "run"}).Apply(nil, nil), `"run"`)
}
