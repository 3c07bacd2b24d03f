package loss

import (
	"encoding/json"
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
	if len(file.Cases) == 0 {
		t.Fatalf("%s: no cases", name)
	}
	return file.Cases
}

func within(t *testing.T, what string, got, want []float64, tol golden.Tolerance) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for i := range want {
		if !tol.Within(got[i], want[i]) {
			t.Errorf("%s[%d]: got %v, want %v", what, i, got[i], want[i])
		}
	}
}

func TestTheOtherPolicyLossesAgreeWithVerl(t *testing.T) {
	for _, c := range recorded(t, "policy_losses.json") {
		t.Run(c.Name, func(t *testing.T) {
			var name, mode string
			golden.Need(t, c.Params, "loss", &name)
			golden.Need(t, c.Params, "loss_agg_mode", &mode)
			o := DefaultOptions()
			for field, dst := range map[string]*float64{
				"clip_ratio_low": &o.ClipLow, "clip_ratio_high": &o.ClipHigh, "tau_pos": &o.TauPos, "tau_neg": &o.TauNeg,
				"clip_cov_ratio": &o.ClipCovRatio, "clip_cov_lb": &o.ClipCovLow, "clip_cov_ub": &o.ClipCovHigh,
				"kl_cov_ratio": &o.KLCovRatio, "ppo_kl_coef": &o.KLCovCoef,
			} {
				*dst = number(t, c.Params, field)
			}
			p, err := Builtin().New(name, o)
			require.NoError(t, err)
			mask := input(t, c, "response_mask")
			b := &Batch[float64]{
				Offsets: mask.offsets(), Mask: mask.mask(),
				LogProb:    column[float64](t, c, "log_prob"),
				OldLogProb: column[float64](t, c, "old_log_prob"),
				Advantage:  column[float64](t, c, "advantages"),
			}
			if _, ok := c.Inputs["rollout_is_weights"]; ok {
				b.Weight = column[float64](t, c, "rollout_is_weights")
			}
			got := mustEval(t, p, Aggregation{Mode: Mode(mode)}, b)
			want := []float64{number(t, c.Expected, "loss")}
			have := []float64{got.Loss}
			compare := func(field string, v float64) {
				if _, ok := c.Expected[field]; ok {
					want, have = append(want, number(t, c.Expected, field)), append(have, v)
				}
			}
			compare("pg_clipfrac", got.Metrics.ClipFraction)
			compare("pg_clipfrac_lower", got.Metrics.ClipFractionLower)
			if kl := got.Metrics.KL; name == "kl_cov" {
				compare("ppo_kl", got.Metrics.AbsKL)
			} else {
				compare("ppo_kl", kl)
			}
			within(t, "loss and metrics", have, want, c.Tolerance)
			var grad padded
			golden.Need(t, c.Expected, "grad_log_prob", &grad)
			within(t, "grad_log_prob", got.Grad, flat[float64](grad), c.Tolerance)
		})
	}
}

func TestRolloutCorrectionAgreesWithVerl(t *testing.T) {
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
			var weights, kept padded
			golden.Need(t, c.Expected, "weights", &weights)
			golden.Need(t, c.Expected, "mask", &kept)
			var have []float64
			for _, w := range got.Weight {
				have = append(have, float64(w))
			}
			within(t, "weights", have, flat[float64](weights), c.Tolerance)
			for i, want := range kept.mask() {
				require.Equal(t, want, got.Mask[i], "mask[%d]", i)
			}
			compareCorrectionMetrics(t, c, got.Metrics)
		})
	}
}

func compareCorrectionMetrics(t *testing.T, c golden.Case, m CorrectionMetrics) {
	t.Helper()
	var want map[string]float64
	golden.Need(t, c.Expected, "metrics", &want)
	have := map[string]float64{}
	for name, v := range m.All() {
		have[name] = v
	}
	for name, w := range want {
		v, ok := have["rollout_corr/"+name]
		if !ok || !c.Tolerance.Within(v, w) {
			t.Errorf("%s: got %v (%v), want %v", name, v, ok, w)
		}
	}
}
