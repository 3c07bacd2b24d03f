package filter

import (
	"math"
	"slices"
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
		if !slices.Equal(got.Keep, c.keep) || math.Abs(got.Scale-c.scale) > 1e-15 {
			t.Errorf("%s: kept %v with scale %v, want %v with %v", name, got.Keep, got.Scale, c.keep, c.scale)
		}
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
		switch row * 7 % 3 {
		case 0:
			t.Fatalf("kept group %d without variance", row)
		case 1:
			if quarter++; row >= 150 {
				t.Fatalf("kept group %d, an earlier one has the same variance", row)
			}
		}
	}
	if quarter != 50 || len(got.Keep) != 300 {
		t.Errorf("kept %d rows with %d groups of the middle", len(got.Keep), quarter)
	}
}

func TestABatchWithoutVarianceIsKeptWhole(t *testing.T) {
	b := &Batch{Group: []string{"a", "a", "b", "b"}, Return: []float64{1, 1, 0, 0}}
	for _, f := range []Filter{DefaultTopP(), DefaultMinP(), DefaultDropEqual(), DropEqual{Scaling: Sqrt}} {
		got := run(t, f, b)
		if len(got.Keep) != 4 || got.Scale != 1 {
			t.Errorf("%+v kept %v, scale %v", f, got.Keep, got.Scale)
		}
	}
	if got := run(t, DropEqual{KeepNone: true}, b); len(got.Keep) != 0 || got.Scale != 1 {
		t.Errorf("KeepNone kept %v, scale %v", got.Keep, got.Scale)
	}
}

func TestVarianceIsBetweenRolloutsNotBetweenTheirRows(t *testing.T) {
	b := &Batch{
		Group:      []string{"a", "a", "a", "a", "b", "b"},
		Trajectory: []string{"0", "0", "1", "1", "0", "1"},
		Return:     []float64{0, 3, 1, 2, 0, 1},
	}
	groups, err := Groups(b, 0)
	require.NoError(t, err)
	if groups[0].Variance != 0 || groups[0].Trajectories != 2 || groups[1].Variance != 0.25 {
		t.Errorf("got %+v", groups)
	}
	if got := run(t, DefaultDropEqual(), b); !slices.Equal(got.Keep, []int{4, 5}) {
		t.Errorf("kept %v, want group b: both rollouts of a earned 3", got.Keep)
	}
	b.Trajectory = nil
	if groups, _ = Groups(b, 1); math.Abs(groups[0].Variance-5.0/3) > 1e-12 {
		t.Errorf("per row: variance %v, want 5/3", groups[0].Variance)
	}
}

func TestGroupsThatAreTooSmallOrEqualHaveNoVariance(t *testing.T) {
	b := &Batch{Group: []string{"one", "two", "two"}, Return: []float64{5, 0, 1}}
	for range 7 { // whose mean is not 10.9 after rounding
		b.Group, b.Return = append(b.Group, "equal"), append(b.Return, 10.9)
	}
	for ddof, two := range []float64{0.25, 0.5, 0, 0} {
		groups, err := Groups(b, ddof)
		require.NoError(t, err)
		if groups[0].Variance != 0 || groups[1].Variance != two || groups[2].Variance != 0 {
			t.Errorf("ddof %d: %+v", ddof, groups)
		}
	}
}

func TestFilteringNothingKeepsNothing(t *testing.T) {
	for _, f := range []Filter{None{}, DefaultTopFraction(), TopK{K: 1}, DefaultTopP(), DefaultMinP(),
		DefaultDropEqual()} {
		if got := run(t, f, &Batch{}); len(got.Keep) != 0 || got.Scale != 1 {
			t.Errorf("%T: %+v", f, got)
		}
	}
	if MeanVariance(nil) != 0 {
		t.Error("no groups have a mean variance")
	}
}

func TestAReusedResultHoldsNoOldValues(t *testing.T) {
	var r Result
	require.NoError(t, DefaultTopP().Filter(&r, mixed()))
	require.NoError(t, (None{}).Filter(&r, &Batch{Group: []string{"z"}, Return: []float64{1}}))
	if !slices.Equal(r.Keep, []int{0}) || r.Scale != 1 || len(r.Metrics) != 0 {
		t.Errorf("got %+v", r)
	}
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
		if v, ok := got.Metrics[name]; !ok || math.Abs(v-want) > 1e-12 {
			t.Errorf("%s = %v (%v), want %v", name, v, ok, want)
		}
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
