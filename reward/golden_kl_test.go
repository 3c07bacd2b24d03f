package reward

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/policy/loss"
)

// Recorded from the fork's controllers (testdata/algorithms/kl_controller.json).
func TestControllersEqualTheOriginals(t *testing.T) {
	golden.Each(t, "algorithms/kl_controller.json", func(c *golden.Run) {
		coefficient := c.Optional("init_kl_coef", c.Optional("kl_coef", math.NaN()))
		controller, err := NewController(golden.Param[string](c, "type"), coefficient, c.Optional("target_kl", 0),
			c.Optional("horizon", 0))
		require.NoError(c, err)
		rows := golden.Input[[]int](c, "n_steps")
		var got []float64
		for i, kl := range golden.Input[[]float64](c, "current_kl") {
			require.NoError(c, controller.Update(kl, rows[i]))
			got = append(got, controller.Coefficient())
		}
		golden.Numbers(c, "coef_after_each_update", got)
	})
}

// Recorded from the legacy trainer (testdata/algorithms/apply_kl_penalty.json).
// The attention mask has one more column, for the prompt, than the scores.
func TestShapingEqualsTheOriginal(t *testing.T) {
	golden.Each(t, "algorithms/apply_kl_penalty.json", func(c *golden.Run) {
		scores := golden.Input[[][]float64](c, "token_level_scores")
		attention := golden.InputOr[[][]int](c, "attention_mask", nil)
		logp := golden.InputOr[[][]float64](c, "old_log_probs", nil)
		if logp == nil {
			logp = golden.Input[[][]float64](c, "old_log_prob")
		}
		ref, name := golden.InputOr[[][]float64](c, "ref_log_prob", nil), golden.ParamOr(c, "kl_penalty", "kl")
		if ref == nil {
			name = "kl" // recorded as "none": without a reference nothing is charged
		}
		coefficient := c.Optional("kl_coef", c.Optional("kl_ratio", math.NaN()))
		controller, err := NewController(golden.ParamOr(c, "kl_ctrl", "fixed"), coefficient, c.Optional("target_kl", 0),
			c.Optional("horizon", 0))
		require.NoError(c, err)
		offsets, mask := []int{0}, []bool(nil)
		var s []float64
		for i, row := range scores {
			s = append(s, row...)
			offsets = append(offsets, len(s))
			if attention != nil {
				for _, a := range attention[i][len(attention[i])-len(row):] {
					mask = append(mask, a != 0)
				}
			}
		}
		got := make([]float64, len(s))
		kl, err := ShapeKL(got, s, slices.Concat(logp...), slices.Concat(ref...), mask, offsets, loss.KL(name),
			controller.Coefficient())
		require.NoError(c, err)
		golden.Numbers(c, "token_level_rewards", got)
		if c.Expected["current_kl"] != nil {
			c.Number("current_kl", kl)
		}
		if c.Expected["beta_used"] != nil && ref != nil {
			c.Number("beta_used", controller.Coefficient())
		}
		if c.Expected["coef_after"] != nil {
			require.NoError(c, controller.Update(kl, len(scores)))
			c.Number("coef_after", controller.Coefficient())
		}
	})
}

func TestShapeKLRefusesWhatItsLimitHides(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range [][2]float64{{-1, -inf}, {inf, -1}} {
		now, reference := c[:1], c[1:]
		_, err := ShapeKL(make([]float64, 1), []float64{0}, now, reference, nil, []int{0, 1}, loss.K3, 1)
		require.ErrorContains(t, err, "row 0, token 0", "%v", c)
	}
}
