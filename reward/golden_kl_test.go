package reward

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/policy/loss"
)

// Recorded from the fork's controllers (testdata/algorithms/kl_controller.json).
func TestControllersEqualTheOriginals(t *testing.T) {
	const file = "algorithms/kl_controller.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		tally.Case()
		var kind string
		var coefficient, target, horizon float64
		golden.Need(t, c.Params, "type", &kind)
		if !golden.Decode(t, c.Params, "init_kl_coef", &coefficient) {
			golden.Need(t, c.Params, "kl_coef", &coefficient)
		}
		golden.Decode(t, c.Params, "target_kl", &target)
		golden.Decode(t, c.Params, "horizon", &horizon)
		controller, err := NewController(kind, coefficient, target, horizon)
		require.NoError(t, err)
		kls := golden.Value[[]float64](t, c.Inputs, "current_kl")
		rows := golden.Value[[]int](t, c.Inputs, "n_steps")
		want := golden.Value[[]float64](t, c.Expected, "coef_after_each_update")
		var got []float64
		for i, kl := range kls {
			require.NoError(t, controller.Update(kl, rows[i]))
			got = append(got, controller.Coefficient())
		}
		golden.Floats(t, tally, c.Name, got, want, c.Tolerance)
	}
}

// Recorded from the legacy trainer (testdata/algorithms/apply_kl_penalty.json).
// The attention mask has one more column, for the prompt, than the scores.
func TestShapingEqualsTheOriginal(t *testing.T) {
	const file = "algorithms/apply_kl_penalty.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		tally.Case()
		scores := golden.Value[[][]float64](t, c.Inputs, "token_level_scores")
		want := golden.Value[[][]float64](t, c.Expected, "token_level_rewards")
		var attention [][]int
		golden.Decode(t, c.Inputs, "attention_mask", &attention)
		var logp, ref [][]float64
		if !golden.Decode(t, c.Inputs, "old_log_probs", &logp) {
			golden.Need(t, c.Inputs, "old_log_prob", &logp)
		}
		golden.Decode(t, c.Inputs, "ref_log_prob", &ref)
		name, kind, coefficient, target, horizon := "kl", "fixed", 0.0, 0.0, 0.0
		golden.Decode(t, c.Params, "kl_penalty", &name)
		golden.Decode(t, c.Params, "kl_ctrl", &kind)
		if !golden.Decode(t, c.Params, "kl_coef", &coefficient) {
			golden.Need(t, c.Params, "kl_ratio", &coefficient)
		}
		golden.Decode(t, c.Params, "target_kl", &target)
		golden.Decode(t, c.Params, "horizon", &horizon)
		if ref == nil {
			name = "kl" // recorded as "none": without a reference nothing is charged
		}
		controller, err := NewController(kind, coefficient, target, horizon)
		require.NoError(t, err)
		offsets, mask := []int{0}, []bool(nil)
		var s, l, r []float64
		for i, row := range scores {
			s, l = append(s, row...), append(l, logp[i]...)
			if ref != nil {
				r = append(r, ref[i]...)
			}
			offsets = append(offsets, len(s))
			if attention != nil {
				for _, a := range attention[i][len(attention[i])-len(row):] {
					mask = append(mask, a != 0)
				}
			}
		}
		got := make([]float64, len(s))
		kl, err := ShapeKL(got, s, l, r, mask, offsets, loss.KL(name), controller.Coefficient())
		require.NoError(t, err, c.Name)
		tol := c.Tolerance
		for i := range scores {
			golden.Floats(t, tally, fmt.Sprintf("%s row %d", c.Name, i), got[offsets[i]:offsets[i+1]], want[i], tol)
		}
		var current, used, after float64
		if golden.Decode(t, c.Expected, "current_kl", &current) {
			tally.Float(t, c.Name+" kl", kl, current, tol)
		}
		if golden.Decode(t, c.Expected, "beta_used", &used) && r != nil {
			tally.Float(t, c.Name+" coefficient used", controller.Coefficient(), used, c.Tolerance)
		}
		if golden.Decode(t, c.Expected, "coef_after", &after) {
			require.NoError(t, controller.Update(kl, len(scores)))
			tally.Float(t, c.Name+" coefficient after", controller.Coefficient(), after, tol)
		}
	}
}

func TestShapeKLRefusesWhatItsLimitHides(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range [][2]float64{{-1, -inf}, {inf, -1}} {
		now, reference := c[:1], c[1:]
		_, err := ShapeKL(make([]float64, 1), []float64{0}, now, reference, nil, []int{0, 1}, loss.K3, 1)
		require.ErrorContains(t, err, "row 0, token 0", "%v", c)
	}
}
