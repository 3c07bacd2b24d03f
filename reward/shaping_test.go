package reward

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/mask"
	"vagen/policy/loss"
)

// threeTurns is a row of three turns, with an observation to read between them and
// at the end, and what they earned.
func threeTurns(t *testing.T) (*mask.Sequence, []Parts) {
	t.Helper()
	row := new(mask.Sequence)
	require.NoError(t, errors.Join(
		row.AppendContext(mask.Prompt, 1), row.AppendResponse(2, 3), row.AppendContext(mask.Observation, 4),
		row.AppendResponse(5), row.AppendResponse(6, 7, 8), row.AppendContext(mask.Observation, 9),
		row.AddSpan("observation", 1, 2), row.AddSpan("prediction", 5, 6), row.AddSpan("prediction", 5, 8),
		row.AddSpan("answer", 6, 7),
	))
	return row, []Parts{
		{{"format", 0.5}, {"observation", 0.25}},
		{{"format", 0.5}, {"observation", 0.25}}, // without a span
		{{"success", 1}, {"prediction", 0.125}, {"answer", 0.0625}, {"answer", 0.5}},
	}
}

func TestRewardsArePlacedAsThePlacementSays(t *testing.T) {
	row, turns := threeTurns(t)
	for how, want := range map[Placement][]float32{
		PerTurn: {9, 0, 0, 0.75, 0, 0.75, 0, 0, 3.6875, 0},
		AtLast:  {9, 0, 0, 0, 0, 0, 0, 0, 5.1875, 0},
		PerSpan: {9, 0, 0.25, 0.5, 0, 0.75, 0, 0.5625, 3.125, 0},
	} {
		got, err := Place([]float32{9}, row, how, turns, 2)
		require.NoError(t, err)
		require.Equal(t, want, got[:10], how)
		require.Len(t, got, 1+row.Len())
	}
	for _, how := range []Placement{PerTurn, AtLast, PerSpan} {
		got, err := Place(nil, new(mask.Sequence), how, nil, 0)
		require.NoError(t, err)
		require.Empty(t, got)
	}
}

func TestRewardsThatCannotBePlacedAreErrors(t *testing.T) {
	row, turns := threeTurns(t)
	for name, c := range map[string]struct {
		row   *mask.Sequence
		how   Placement
		turns []Parts
		final float64
		want  string
	}{
		"too few":          {row, PerTurn, turns[:2], 0, "2 rewards, final 0, 3 turns"},
		"too few spans":    {row, PerSpan, turns[:2], 0, "2 rewards, final 0, 3 turns"},
		"not finite":       {row, PerTurn, []Parts{nil, nil, {{"x", math.NaN()}}}, 0, `turn 2: part "x" is NaN`},
		"final not finite": {row, AtLast, turns, math.Inf(1), "final"},
		"no turn":          {new(mask.Sequence), PerSpan, nil, 1, "0 rewards, final 1, 0 turns"},
		"no token":         {new(mask.Sequence), AtLast, turns, 0, "0 turns"},
		"no placement":     {row, "first", nil, 0, `"first" is not one of`},
	} {
		got, err := Place([]float32{7}, c.row, c.how, c.turns, c.final)
		require.ErrorContains(t, err, c.want, name)
		require.Equal(t, []float32{7}, got, name)
	}
	_, err := Place(nil, row, PerTurn, nil, 0)
	require.ErrorIs(t, err, mask.ErrTurns)
}

func TestShapingNeedsUsableInput(t *testing.T) {
	two := []float32{1, 2}
	shape := func(dst, scores, logp, ref []float32, mask []bool, offsets []int, k loss.KL, c float64) error {
		_, err := ShapeKL(dst, scores, logp, ref, mask, offsets, k, c)
		return err
	}
	require.ErrorContains(t, shape(two, two, two[:1], two, nil, []int{0, 2}, loss.K2, 1), "lengths differ")
	require.ErrorContains(t, shape(two, two, two, two, []bool{true}, []int{0, 2}, loss.K2, 1), "mask 1")
	require.ErrorContains(t, shape(two, two, two, two, nil, []int{0, 1}, loss.K2, 1), "offsets")
	require.ErrorContains(t, shape(two, two, two, two, nil, []int{0, 2}, "k9", 1), `"k9"`)
	require.ErrorContains(t, shape(two, two, two, two, nil, []int{0, 2}, loss.K2, math.NaN()), "coefficient")
	bad := []float32{0, float32(math.Inf(-1))}
	require.ErrorContains(t, shape(make([]float32, 2), two, bad, two, nil, []int{0, 1, 2}, loss.K2, 1), "row 1, token 0")
	// Numbers outside the mask may be anything.
	require.NoError(t, shape(make([]float32, 2), two, bad, two, []bool{true, false}, []int{0, 1, 2}, loss.K2, 1))
}

func TestRowsWithoutTokensDoNotChangeTheMeasuredKL(t *testing.T) {
	scores := []float32{0, 0, 0}
	dst := make([]float32, 3)
	counts := []bool{true, true, false}
	kl, err := ShapeKL(dst, scores, []float32{-1, -1, -1}, []float32{-2, -2, -2}, counts, []int{0, 2, 2, 3}, loss.K1, 0.5)
	require.NoError(t, err)
	require.Equal(t, 1.0, kl)
	require.Equal(t, []float32{-0.5, -0.5, 0}, dst)
	kl, err = ShapeKL(dst, scores, nil, nil, nil, []int{0, 3}, loss.K1, 0.5)
	require.NoError(t, err)
	require.Zero(t, kl)
}

func TestControllersRefuseNumbersThatAreNotFinite(t *testing.T) {
	for _, c := range []Controller{&FixedKL{Value: 0.1}, &AdaptiveKL{Value: 0.1, Target: 0.1, Horizon: 100}} {
		require.Error(t, c.Update(math.NaN(), 5))
		require.Equal(t, 0.1, c.Coefficient())
	}
	require.Error(t, (&AdaptiveKL{Value: 1}).Update(1, 1))
	require.ErrorContains(t, (&AdaptiveKL{Value: 1, Target: 1, Horizon: math.Inf(1)}).Update(1, 1), "above 0 and finite")
	for _, bad := range []func() (Controller, error){
		func() (Controller, error) { return NewController("adaptive", 1, 0, 1) },
		func() (Controller, error) { return NewController("adaptive", 1, 1, math.Inf(1)) },
		func() (Controller, error) { return NewController("fixed", math.NaN(), 1, 1) },
		func() (Controller, error) { return NewController("pid", 1, 1, 1) },
	} {
		_, err := bad()
		require.Error(t, err)
	}
}

// TestACoefficientIsNeverNegative: a step of more rows than five horizons would turn
// the penalty into a reward.
func TestACoefficientIsNeverNegative(t *testing.T) {
	a := &AdaptiveKL{Value: 0.2, Target: 0.1, Horizon: 100}
	require.NoError(t, a.Update(0, 600))
	require.Zero(t, a.Coefficient())
	b := &AdaptiveKL{Value: 0.2, Target: 0.1, Horizon: 100}
	require.NoError(t, b.Update(0, 400))
	require.InDelta(t, 0.2*(1-0.8), b.Coefficient(), 1e-15)
}

func TestControllerStateSurvivesSaving(t *testing.T) {
	a := &AdaptiveKL{Value: 0.2, Target: 0.1, Horizon: 100}
	require.NoError(t, a.Update(0.3, 10))
	data, err := json.Marshal(a)
	require.NoError(t, err)
	b := testkit.JSON[AdaptiveKL](t, data)
	require.Equal(t, *a, b)
}

func TestClipCountsWhatItMoves(t *testing.T) {
	values := []float64{-3, 0.5, 7, 1, math.NaN()}
	require.Equal(t, 2, Clip(values, -1, 1))
	require.Equal(t, []float64{-1, 0.5, 1, 1}, values[:4])
	require.True(t, math.IsNaN(values[4]))
}
