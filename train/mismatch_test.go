package train_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train/config"
)

// rounded is a learner whose log-probs differ from those of sampling, as with rounded weights.
type rounded struct {
	*traintest.Bandit
	by float32
}

// shifted is the same as if another program sampled.
type shifted struct{ rounded }

func (shifted) SampledByEngine() {}

func (s rounded) Score(ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest,
	temperature float64) (*policy.Scores, error) {
	out, err := s.Bandit.Score(ctx, rows, want, what, temperature)
	if err == nil && what.LogProbs {
		for i := range out.LogProbs {
			out.LogProbs[i] += s.by
		}
	}
	return out, err
}

func runShifted(t *testing.T, c config.Config, by float32) traintest.Journal {
	t.Helper()
	return runLearner(t, c, shifted{rounded{traintest.Guesser(), by}})
}

func runLearner(t *testing.T, c config.Config, l policy.Learner) traintest.Journal {
	t.Helper()
	tr, j := traintest.Trainer(t, c, traintest.Guesser(), nil)
	tr.Learner, tr.Handled = l, []string{"model.rollout_dtype"}
	require.NoError(t, tr.Run(t.Context()))
	return *j
}

// TestTheMismatchOfSamplingAndTrainingIsMeasured in every step, for learners whose responses
// other programs sample, or that sample with rounded weights. The tolerance is that of float32 log-probs.
func TestTheMismatchOfSamplingAndTrainingIsMeasured(t *testing.T) {
	const d, tolerance = 0.25, 1e-5
	c := traintest.Small()
	for _, e := range runShifted(t, c, d) {
		if e.Kind != "step" {
			continue
		}
		m := e.Metrics
		require.InDelta(t, d, m["rollout/logprob_diff_mean"], tolerance)
		require.InDelta(t, d, m["rollout/logprob_diff_max"], tolerance)
		require.InDelta(t, -d, m["rollout/kl"], tolerance)
		require.InDelta(t, math.Exp(d)-d-1, m["rollout/kl_k3"], tolerance)
		require.InDelta(t, math.Exp(d), m["rollout/ratio_max"], tolerance)
		require.Positive(t, m["rollout/prob_diff_mean"])
	}
	for _, e := range traintest.Run(t, c, traintest.Guesser()) {
		require.NotContains(t, e.Metrics, "rollout/kl")
	}
	c.Model.RolloutDType = "int8"
	for _, e := range runLearner(t, c, rounded{traintest.Guesser(), d}) {
		if e.Kind == "step" {
			require.InDelta(t, -d, e.Metrics["rollout/kl"], tolerance)
		}
	}
	c.Algorithm.Correction.Bypass = true
	for _, e := range runShifted(t, c, d) {
		require.NotContains(t, e.Metrics, "rollout/kl", "there is nothing to compare with")
	}
}
