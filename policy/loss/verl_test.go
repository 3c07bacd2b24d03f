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
	tally := golden.NewTally(t, "testdata/policy_losses.json")
	for _, c := range recorded(t, "policy_losses.json") {
		t.Run(c.Name, func(t *testing.T) {
			var name, mode string
			golden.Need(t, c.Params, "loss", &name)
			golden.Need(t, c.Params, "loss_agg_mode", &mode)
			o := DefaultOptions()
			for field, dst := range map[string]*float64{
				"clip_ratio_low": &o.ClipLow, "clip_ratio_high": &o.ClipHigh, "tau_pos": &o.TauPos, "tau_neg": &o.TauNeg,
				"clip_cov_ratio": &o.ClipCov.Ratio, "clip_cov_lb": &o.ClipCov.CovLow, "clip_cov_ub": &o.ClipCov.CovHigh,
				"kl_cov_ratio": &o.KLCov.Ratio, "ppo_kl_coef": &o.KLCov.Coef,
			} {
				*dst = number(t, c.Params, field)
			}
			p := built(t, name, o)
			b := responses[float64](t, c, "old_log_prob")
			b.Weight = sampled[float64](t, c, "rollout_is_weights")
			got := mustEval(t, p, Aggregation{Mode: Mode(mode)}, b)
			kl := got.Metrics.KL
			if name == "kl_cov" {
				kl = got.Metrics.AbsKL
			}
			scalar(t, tally, c, "loss", got.Loss)
			for field, v := range map[string]float64{"pg_clipfrac": got.Metrics.ClipFraction,
				"pg_clipfrac_lower": got.Metrics.ClipFractionLower, "ppo_kl": kl} {
				if _, ok := c.Expected[field]; ok {
					scalar(t, tally, c, field, v)
				}
			}
			perToken(t, tally, c, "grad_log_prob", got.Grad)
		})
	}
}

func TestRolloutCorrectionAgreesWithVerl(t *testing.T) {
	tally := golden.NewTally(t, "testdata/rollout_correction.json")
	for _, c := range recorded(t, "rollout_correction.json") {
		t.Run(c.Name, func(t *testing.T) {
			var level, names, thresholds string
			var normalize bool
			golden.Need(t, c.Params, "rollout_is", &level)
			golden.Need(t, c.Params, "rollout_rs", &names)
			golden.Need(t, c.Params, "rollout_rs_threshold", &thresholds)
			golden.Need(t, c.Params, "rollout_is_batch_normalize", &normalize)
			rules, err := ParseRejections(names, thresholds)
			require.NoError(t, err)
			corr := Correction{Weight: Level(level), Threshold: number(t, c.Params, "rollout_is_threshold"),
				Normalize: normalize, Reject: rules}
			mask := input(t, c, "response_mask")
			var got Corrected
			err = Correct(&got, corr, &CorrectionBatch[float64]{
				Offsets: mask.offsets(), Mask: mask.mask(),
				Trainer: column[float64](t, c, "trainer_log_prob"),
				Rollout: column[float64](t, c, "rollout_log_prob"),
			})
			require.NoError(t, err)
			golden.Floats(t, tally, "weights", got.Weight, flat[float64](expected(t, c, "weights")), c.Tolerance)
			require.Equal(t, expected(t, c, "mask").mask(), got.Mask)
			compareCorrectionMetrics(t, tally, c, got.Metrics)
		})
	}
}

func compareCorrectionMetrics(t *testing.T, tally *golden.Tally, c golden.Case, m CorrectionMetrics) {
	t.Helper()
	have := maps.Collect(m.All())
	for name, want := range golden.Value[map[string]float64](t, c.Expected, "metrics") {
		require.Contains(t, have, "rollout_corr/"+name)
		tally.Float(t, name, have["rollout_corr/"+name], want, c.Tolerance)
	}
}
