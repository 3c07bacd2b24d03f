package filter

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

const file = "algorithms/filters.json"

func TestFiltersAgreeWithVAGENLite(t *testing.T) {
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		t.Run(c.Name, func(t *testing.T) {
			tally.Case()
			b, kwargs, name := batchOf(t, c)
			f, err := Builtin().New(name, kwargs)
			require.NoError(t, err)
			var got Result
			require.NoError(t, f.Filter(&got, b))
			compare(t, tally, c, b, &got)
		})
	}
}

// batchOf reads a case; its parameters besides the filter's name and the group
// key are the filter's settings.
func batchOf(t *testing.T, c golden.Case) (b *Batch, kwargs map[string]any, name string) {
	t.Helper()
	scores := golden.Value[[][]float64](t, c.Inputs, "token_level_scores")
	ids := golden.Value[[]any](t, c.Inputs, "group_idx")
	b = &Batch{}
	for row, id := range ids {
		var sum float64
		for _, s := range scores[row] {
			sum += s
		}
		b.Group, b.Return = append(b.Group, fmt.Sprint(id)), append(b.Return, sum)
	}
	golden.Need(t, c.Params, "filter", &name)
	kwargs = map[string]any{}
	for key := range c.Params {
		if key == "filter" || key == "group_key" {
			continue
		}
		v := golden.Value[any](t, c.Params, key)
		kwargs[key] = v
	}
	return b, kwargs, name
}

func compare(t *testing.T, tally *golden.Tally, c golden.Case, b *Batch, got *Result) {
	t.Helper()
	keep := golden.Value[[]int](t, c.Expected, "keep_indices")
	tally.Add(1)
	require.Equal(t, keep, got.Keep, "kept")
	metrics := golden.Value[map[string]float64](t, c.Expected, "metrics")
	for key, want := range metrics {
		require.Contains(t, got.Metrics, key)
		tally.Float(t, key, got.Metrics[key], want, c.Tolerance)
	}
	var mean float64
	if golden.Decode(t, c.Expected, "mean_group_variance", &mean) {
		ddof := 0
		golden.Decode(t, c.Params, "ddof", &ddof)
		groups, err := Groups(b, ddof)
		require.NoError(t, err)
		tally.Float(t, "mean_group_variance", MeanVariance(groups), mean, c.Tolerance)
	}
	var advantages, scaled [][]float64
	if golden.Decode(t, c.Expected, "advantages", &scaled) {
		golden.Need(t, c.Inputs, "advantages", &advantages)
		for k, row := range got.Keep {
			var have []float64
			for _, a := range advantages[row] {
				have = append(have, a*got.Scale)
			}
			golden.Floats(t, tally, fmt.Sprintf("advantages of row %d", row), have, scaled[k], c.Tolerance)
		}
	}
}
