package filter

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// mixed has groups a, b, c, d with variances 1, 4, 0 and 0.25, rows interleaved.
func mixed() *Batch {
	return &Batch{
		Group:  []string{"a", "b", "c", "d", "a", "b", "c", "d"},
		Return: []float64{0, 0, 7, 1, 2, 4, 7, 2},
	}
}

func run(t *testing.T, f Filter, b *Batch) *Result {
	t.Helper()
	var r Result
	require.NoError(t, f.Filter(&r, b))
	return &r
}

func TestFiltersKeepTheDocumentedGroups(t *testing.T) {
	for name, c := range map[string]struct {
		f     Filter
		keep  []int
		scale float64
	}{
		"none":            {None{}, []int{0, 1, 2, 3, 4, 5, 6, 7}, 1},
		"half":            {TopFraction{Fraction: 0.5}, []int{0, 1, 4, 5}, 1},
		"rounded up":      {TopFraction{Fraction: 0.51}, []int{0, 1, 3, 4, 5, 7}, 1},
		"at least one":    {TopFraction{Fraction: 0}, []int{1, 5}, 1},
		"three":           {TopK{K: 3}, []int{0, 1, 3, 4, 5, 7}, 1},
		"more than any":   {TopK{K: 9, Scaling: Sqrt}, []int{0, 1, 2, 3, 4, 5, 6, 7}, 1},
		"two, linear":     {TopK{K: 2, Scaling: Linear}, []int{0, 1, 4, 5}, 0.5},
		"most variance":   {TopP{P: 0.9, Scaling: Sqrt}, []int{0, 1, 4, 5}, math.Sqrt(0.5)},
		"some variance":   {TopP{P: 0.7}, []int{1, 5}, 1},
		"all variance":    {TopP{P: 1, Scaling: Sqrt}, []int{0, 1, 3, 4, 5, 7}, math.Sqrt(0.75)},
		"quarter of best": {MinP{P: 0.25}, []int{0, 1, 4, 5}, 1},
		"any of best":     {MinP{P: 0}, []int{0, 1, 2, 3, 4, 5, 6, 7}, 1},
		"not equal":       {DropEqual{}, []int{0, 1, 3, 4, 5, 7}, 1},
		"hardly equal":    {DropEqual{Tolerance: 1, Scaling: Sqrt}, []int{0, 1, 4, 5}, math.Sqrt(0.5)},
	} {
		got := run(t, c.f, mixed())
		require.Equal(t, c.keep, got.Keep, name)
		require.InDelta(t, c.scale, got.Scale, 1e-15, name)
	}
}

func TestEqualVariancesGoByFirstAppearance(t *testing.T) {
	b := &Batch{}
	for row := range 600 { // groups of two with variance 0, ¼ and 1 in turns
		g := row % 300
		b.Group = append(b.Group, string(rune('A'+g)))
		b.Return = append(b.Return, float64(row/300*(g*7%3)))
	}
	got := run(t, TopK{K: 150}, b)
	// All 100 groups of variance 1, and the first 50 of variance ¼.
	quarter := 0
	for _, row := range got.Keep[:150] {
		require.NotZero(t, row*7%3, "group %d has no variance", row)
		if row*7%3 == 1 {
			quarter++
			require.Less(t, row, 150, "an earlier group has the same variance")
		}
	}
	require.Equal(t, []int{50, 300}, []int{quarter, len(got.Keep)})
}

func TestABatchWithoutVarianceIsKeptWhole(t *testing.T) {
	b := &Batch{Group: []string{"a", "a", "b", "b"}, Return: []float64{1, 1, 0, 0}}
	for _, f := range []Filter{DefaultTopP(), DefaultMinP(), DefaultDropEqual(), DropEqual{Scaling: Sqrt}} {
		got := run(t, f, b)
		require.Len(t, got.Keep, 4, "%+v", f)
		require.Equal(t, 1.0, got.Scale, "%+v", f)
	}
	none := run(t, DropEqual{KeepNone: true}, b)
	require.Empty(t, none.Keep)
	require.Equal(t, 1.0, none.Scale)
}

func TestVarianceIsBetweenRolloutsNotBetweenTheirRows(t *testing.T) {
	b := &Batch{
		Group:      []string{"a", "a", "a", "a", "b", "b"},
		Trajectory: []string{"0", "0", "1", "1", "0", "1"},
		Return:     []float64{0, 3, 1, 2, 0, 1},
	}
	groups, err := Groups(b, 0)
	require.NoError(t, err)
	require.Equal(t, []any{0.0, 2, 0.25}, []any{groups[0].Variance, groups[0].Trajectories, groups[1].Variance})
	require.Equal(t, []int{4, 5}, run(t, DefaultDropEqual(), b).Keep, "both rollouts of a earned 3")
	b.Trajectory = nil
	groups, err = Groups(b, 1)
	require.NoError(t, err)
	require.InDelta(t, 5.0/3, groups[0].Variance, 1e-12, "per row")
}

func TestGroupsThatAreTooSmallOrEqualHaveNoVariance(t *testing.T) {
	b := &Batch{Group: []string{"one", "two", "two"}, Return: []float64{5, 0, 1}}
	for range 7 { // whose mean is not 10.9 after rounding
		b.Group, b.Return = append(b.Group, "equal"), append(b.Return, 10.9)
	}
	for ddof, two := range []float64{0.25, 0.5, 0, 0} {
		groups, err := Groups(b, ddof)
		require.NoError(t, err)
		require.Equal(t, []float64{0, two, 0}, []float64{groups[0].Variance, groups[1].Variance, groups[2].Variance},
			ddof)
	}
}

func TestFilteringNothingKeepsNothing(t *testing.T) {
	for _, f := range []Filter{None{}, DefaultTopFraction(), TopK{K: 1}, DefaultTopP(), DefaultMinP(),
		DefaultDropEqual()} {
		got := run(t, f, &Batch{})
		require.Empty(t, got.Keep, "%T", f)
		require.Equal(t, 1.0, got.Scale, "%T", f)
	}
	require.Zero(t, MeanVariance(nil))
}

func TestAReusedResultHoldsNoOldValues(t *testing.T) {
	var r Result
	require.NoError(t, DefaultTopP().Filter(&r, mixed()))
	require.NoError(t, (None{}).Filter(&r, &Batch{Group: []string{"z"}, Return: []float64{1}}))
	require.Equal(t, []int{0}, r.Keep)
	require.Equal(t, 1.0, r.Scale)
	require.Empty(t, r.Metrics)
}

func TestMetricsCountGroupsAndRows(t *testing.T) {
	got := run(t, TopP{P: 0.9, Scaling: Sqrt}, mixed())
	for name, want := range map[string]float64{
		"filter/train/original/batch_size":             8,
		"filter/train/filtered/batch_size":             4,
		"filter/train/top_p/num_selected_groups":       2,
		"filter/train/top_p/num_total_groups":          4,
		"filter/train/top_p/mean_variance":             2.5,
		"filter/train/top_p/min_variance":              1,
		"filter/train/top_p/max_variance":              4,
		"filter/train/original/mean_variance":          5.25 / 4,
		"filter/train/top_p/cumulative_variance_ratio": 5 / 5.25,
		"filter/train/top_p/loss_scale":                math.Sqrt(0.5),
	} {
		require.Contains(t, got.Metrics, name)
		require.InDelta(t, want, got.Metrics[name], 1e-12, name)
	}
}

func TestBadBatchesAndSettingsAreRefused(t *testing.T) {
	for _, f := range []Filter{None{}, DefaultTopP()} {
		require.ErrorIs(t, f.Filter(&Result{}, nil), ErrLength)
		require.ErrorContains(t, f.Filter(nil, &Batch{}), "the result is nil")
	}
	for name, c := range map[string]struct {
		f    Filter
		b    *Batch
		want error
	}{
		"short returns": {None{}, &Batch{Group: []string{"a"}}, ErrLength},
		"short trajectories": {DefaultTopP(), &Batch{Group: []string{"a"}, Return: []float64{1}, Trajectory: []string{}},
			ErrLength},
		"NaN":       {DefaultTopP(), &Batch{Group: []string{"a"}, Return: []float64{math.NaN()}}, ErrNotFinite},
		"infinity":  {None{}, &Batch{Group: []string{"a"}, Return: []float64{math.Inf(1)}}, ErrNotFinite},
		"topk":      {TopFraction{Fraction: 1.5}, mixed(), ErrSetting},
		"k":         {TopK{}, mixed(), ErrSetting},
		"top_p":     {TopP{P: -0.1}, mixed(), ErrSetting},
		"min_p":     {MinP{P: math.NaN()}, mixed(), ErrSetting},
		"tolerance": {DropEqual{Tolerance: -1}, mixed(), ErrSetting},
		"ddof":      {TopP{P: 0.5, DDOF: -1}, mixed(), ErrSetting},
		"scaling":   {TopP{P: 0.5, Scaling: "root"}, mixed(), ErrSetting},
	} {
		var r Result
		require.ErrorIs(t, c.f.Filter(&r, c.b), c.want, name)
	}
	var r Result
	err := None{}.Filter(&r, &Batch{Group: []string{"a", "b"}, Return: []float64{0, math.NaN()}})
	require.ErrorContains(t, err, `row 1 (group "b")`, "the row and its group")
}
