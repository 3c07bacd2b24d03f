package loss

import (
	"encoding/json"
	"maps"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// recorded reads a file of this package's testdata; its README says how the
// numbers were made.
func recorded(t *testing.T, name string) []golden.Case {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	var file struct{ Cases []golden.Case }
	require.NoError(t, json.Unmarshal(raw, &file))
	require.NotEmpty(t, file.Cases, name)
	return file.Cases
}

func TestTheOtherPolicyLossesAgreeWithVerl(t *testing.T) {
	golden.EachOf(t, "testdata/policy_losses.json", recorded(t, "policy_losses.json"), func(c *golden.Run) {
		name, o := golden.Param[string](c, "loss"), DefaultOptions()
		for field, dst := range map[string]*float64{
			"clip_ratio_low": &o.ClipLow, "clip_ratio_high": &o.ClipHigh, "tau_pos": &o.TauPos, "tau_neg": &o.TauNeg,
			"clip_cov_ratio": &o.ClipCov.Ratio, "clip_cov_lb": &o.ClipCov.CovLow, "clip_cov_ub": &o.ClipCov.CovHigh,
			"kl_cov_ratio": &o.KLCov.Ratio, "ppo_kl_coef": &o.KLCov.Coef,
		} {
			*dst = c.Param(field)
		}
		b := responses[float64](c, "old_log_prob")
		b.Weight = sampled[float64](c, "rollout_is_weights")
		got := mustEval(c, built(c, name, o), aggregation(c, 0), b)
		kl := got.Metrics.KL
		if name == "kl_cov" {
			kl = got.Metrics.AbsKL
		}
		c.Number("loss", got.Loss)
		for field, v := range map[string]float64{"pg_clipfrac": got.Metrics.ClipFraction,
			"pg_clipfrac_lower": got.Metrics.ClipFractionLower, "ppo_kl": kl} {
			if _, ok := c.Expected[field]; ok {
				c.Number(field, v)
			}
		}
		golden.Numbers(c, "grad_log_prob", got.Grad)
	})
}

func TestRolloutCorrectionAgreesWithVerl(t *testing.T) {
	golden.EachOf(t, "testdata/rollout_correction.json", recorded(t, "rollout_correction.json"), func(c *golden.Run) {
		rules, err := ParseRejections(golden.Param[string](c, "rollout_rs"),
			golden.Param[string](c, "rollout_rs_threshold"))
		require.NoError(c, err)
		corr := Correction{Weight: golden.Param[Level](c, "rollout_is"), Threshold: c.Param("rollout_is_threshold"),
			Normalize: golden.Param[bool](c, "rollout_is_batch_normalize"), Reject: rules}
		mask := input(c, "response_mask")
		var got Corrected
		require.NoError(c, Correct(&got, corr, &CorrectionBatch[float64]{
			Offsets: mask.offsets(), Mask: mask.mask(),
			Trainer: column[float64](c, "trainer_log_prob"),
			Rollout: column[float64](c, "rollout_log_prob"),
		}))
		golden.Numbers(c, "weights", got.Weight)
		c.Equal("mask", got.Mask, golden.Expected[padded](c, "mask").mask())
		have := maps.Collect(got.Metrics.All())
		for name, want := range golden.Expected[map[string]float64](c, "metrics") {
			require.Contains(c, have, "rollout_corr/"+name)
			c.Float(name, have["rollout_corr/"+name], want)
		}
	})
}
