package filter

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

func TestFiltersAgreeWithVAGENLite(t *testing.T) {
	golden.Each(t, "algorithms/filters.json", func(c *golden.Run) {
		b, kwargs := batchOf(c)
		f, err := Builtin().New(golden.Param[string](c, "filter"), kwargs)
		require.NoError(c, err)
		var got Result
		require.NoError(c, f.Filter(&got, b))
		compare(c, b, &got)
	})
}

// batchOf reads a case; its parameters besides the filter's name and the group
// key are the filter's settings.
func batchOf(c *golden.Run) (b *Batch, kwargs map[string]any) {
	c.Helper()
	scores := golden.Input[[][]float64](c, "token_level_scores")
	b, kwargs = &Batch{}, map[string]any{}
	for row, id := range golden.Input[[]any](c, "group_idx") {
		var sum float64
		for _, s := range scores[row] {
			sum += s
		}
		b.Group, b.Return = append(b.Group, fmt.Sprint(id)), append(b.Return, sum)
	}
	for key := range c.Params {
		if key != "filter" && key != "group_key" {
			kwargs[key] = golden.Param[any](c, key)
		}
	}
	return b, kwargs
}

func compare(c *golden.Run, b *Batch, got *Result) {
	c.Helper()
	golden.Same(c, "keep_indices", got.Keep)
	for key, want := range golden.Expected[map[string]float64](c, "metrics") {
		require.Contains(c, got.Metrics, key)
		c.Float(key, got.Metrics[key], want)
	}
	if c.Expected["mean_group_variance"] != nil {
		groups, err := Groups(b, golden.ParamOr(c, "ddof", 0))
		require.NoError(c, err)
		c.Number("mean_group_variance", MeanVariance(groups))
	}
	if c.Expected["advantages"] != nil {
		advantages := golden.Input[[][]float64](c, "advantages")
		var scaled []float64
		for _, row := range got.Keep {
			for _, a := range advantages[row] {
				scaled = append(scaled, a*got.Scale)
			}
		}
		golden.Numbers(c, "advantages", scaled)
	}
}
