package filter

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

func TestSettingsArePassedToTheFilter(t *testing.T) {
	for _, c := range []struct {
		name   string
		kwargs map[string]any
		want   Filter
	}{
		{"none", nil, None{}},
		{"reward_variance", nil, TopFraction{0.2, 0, NoScaling}},
		{"reward_variance", map[string]any{"topk": nil}, TopFraction{0.2, 0, NoScaling}},
		{"reward_variance", map[string]any{"topk": 1, "ddof": 1.0, "scaling": "sqrt"}, TopFraction{1, 1, Sqrt}},
		{"reward_variance_top_k", map[string]any{"k": uint64(3)}, TopK{3, 0, NoScaling}},
		{"reward_variance_top_p", nil, TopP{0.9, 0, Sqrt}},
		{"reward_variance_top_p", map[string]any{"top_p": float32(0.5), "ddof": int64(2)}, TopP{0.5, 2, Sqrt}},
		{"reward_variance_min_p", map[string]any{"min_p": 0.25, "scaling": "linear"}, MinP{0.25, 0, Linear}},
		{"dapo", map[string]any{"keep_none": true}, DropEqual{1e-9, true, NoScaling}},
		{"drop_equal", map[string]any{"tolerance": 0}, DropEqual{0, false, NoScaling}},
	} {
		got, err := Builtin().New(c.name, c.kwargs)
		require.NoError(t, err, "%s %v", c.name, c.kwargs)
		require.Equal(t, c.want, got, "%s %v", c.name, c.kwargs)
	}
}

func TestAllFaultsOfSettingsAreReportedAtOnce(t *testing.T) {
	_, err := Builtin().New("reward_variance_top_p", map[string]any{"topp": 0.5, "ddof": "two", "scaling": "sqr",
		"zzz": 1})
	require.ErrorIs(t, err, ErrSetting)
	for _, says := range []string{
		`topp: no such setting, did you mean "top_p"?`, "ddof is two (string), must be a whole number",
		`scaling "sqr"`, `did you mean "sqrt"?`, "zzz: no such setting (known: top_p, ddof, scaling)",
	} {
		require.ErrorContains(t, err, says)
	}
}

func TestWrongValuesAreRefusedBeforeARunStarts(t *testing.T) {
	for name, kwargs := range map[string]map[string]any{
		"none":                  {"topk": 0.2},
		"reward_variance":       {"topk": 2},
		"reward_variance_top_k": {"k": 1.5},
		"reward_variance_top_p": {"top_p": "0.9"},
		"reward_variance_min_p": {"ddof": -1},
		"drop_equal":            {"keep_none": 1},
		"dapo":                  {"scaling": 3},
	} {
		_, err := Builtin().New(name, kwargs)
		require.ErrorIs(t, err, ErrSetting, "%s %v", name, kwargs)
	}
	_, err := Builtin().New("reward_varience", nil)
	testkit.Error(t, err, ErrUnknown, `did you mean "reward_variance"?`)
}

// first keeps the first n rows: a user's filter.
type first struct{ n int }

func (f first) Filter(dst *Result, b *Batch) error {
	*dst = Result{Scale: 1}
	for row := range min(f.n, len(b.Group)) {
		dst.Keep = append(dst.Keep, row)
	}
	return nil
}

// TestABuilderMustReturnAFilter: a trainer without one keeps all episodes.
func TestABuilderMustReturnAFilter(t *testing.T) {
	var r Registry
	require.NoError(t, r.Register("empty", func(*Args) (Filter, error) { return nil, nil }))
	_, err := r.New("empty", nil)
	require.EqualError(t, err, `filter: "empty": its factory returned nil`)
}

func TestUsersFiltersAreBuiltByName(t *testing.T) {
	var r Registry
	build := func(a *Args) (Filter, error) { return first{a.Int("n", 1)}, nil }
	require.NoError(t, r.Register("first", build))
	f, err := r.New("first", map[string]any{"n": 3})
	require.NoError(t, err)
	require.Len(t, run(t, f, mixed()).Keep, 3)
	_, err = r.New("first", map[string]any{"m": 3})
	require.ErrorIs(t, err, ErrSetting)
	require.ErrorIs(t, r.Register("first", build), ErrDuplicate)
	require.Error(t, r.Register("", build))
	require.Error(t, r.Register("second", nil))
}

// Whatever the settings, a filter is built that keeps increasing rows of the
// batch, or an error names the fault.
func FuzzNew(f *testing.F) {
	f.Add("reward_variance", "topk", 0.2, "ddof", 1.0, []byte{1, 2, 3})
	f.Add("reward_variance_top_p", "top_p", 0.9, "scaling", 0.0, []byte{0, 0, 9, 9, 1})
	f.Add("dapo", "tolerance", 0.5, "", 0.0, []byte{255, 1, 255, 2})
	f.Fuzz(func(t *testing.T, name, key string, v float64, key2 string, v2 float64, data []byte) {
		filter, err := Builtin().New(name, map[string]any{key: v, key2: v2})
		if err != nil {
			return
		}
		b := &Batch{}
		for i, x := range data {
			b.Group = append(b.Group, string(rune('a'+x%5)))
			b.Return = append(b.Return, float64(x)*v2*float64(i))
		}
		var r Result
		if filter.Filter(&r, b) != nil {
			return
		}
		last := -1
		for _, row := range r.Keep {
			if row <= last || row >= len(data) {
				t.Fatalf("kept %v of %d rows", r.Keep, len(data))
			}
			last = row
		}
		if !(r.Scale > 0 && r.Scale <= 1) {
			t.Fatalf("scale %v", r.Scale)
		}
	})
}
