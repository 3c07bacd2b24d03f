package track

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheTableOfMetricsIsUnambiguous: no name has two entries, and no alias is of a family.
func TestTheTableOfMetricsIsUnambiguous(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range metrics {
		for _, name := range append([]string{m.Name}, m.Aliases...) {
			require.False(t, seen[name], name)
			seen[name] = true
			of, ok := MetricOf(name)
			require.True(t, ok)
			require.Equal(t, m, of, name)
			require.Equal(t, m.Machine, MachineMetric(name), name)
		}
		require.NotEmpty(t, m.Stage)
	}
}

// TestTheStageOfAMetricIsTheOneThatComputesIt, also where its name begins like those of another
// stage.
func TestTheStageOfAMetricIsTheOneThatComputesIt(t *testing.T) {
	for name, stage := range map[string]string{
		"train/end/done": StageEpisodes, "train/trained_tokens": StageUpdate, "training/epoch": StageEpisodes,
		"judge/unscored/timeout": StageEpisodes, "template/repeated": StageEpisodes,
		"rollout/staleness_max": StageEpisodes, "rollout/kl": StageAdvantages, "rollout_corr/kl": StageAdvantages,
		"reward_variance/min": StageEpisodes, "reward/clipped": StageAdvantages,
		"critic/kl": StageAdvantages, "critic/values/max": StageAdvantages, "critic/vf_loss": StageUpdate,
		"explained_variance": StageAdvantages, "advantage_share/format": StageAdvantages,
		"sft/loss": StageUpdate, "sft/val_loss": StageValidation, "a user's own": StageAdvantages,
	} {
		of, _ := MetricOf(name)
		require.Equal(t, stage, of.Stage, name)
	}
	_, ok := MetricOf("a user's own")
	require.False(t, ok)
}

// TestAliasesAreThoseOfTheEvent: a validation has no names of a step.
func TestAliasesAreThoseOfTheEvent(t *testing.T) {
	m := Metrics{"time/step": 2, "time/validate": 1, "train/success": 0.5}
	m.AddAliases(KindStep)
	require.Equal(t, Metrics{
		"time/step": 2, "timing_s/step": 2, "perf/time_per_step": 2, "time/validate": 1,
		"train/success": 0.5, "custom_metrics/train/traj_success": 0.5,
	}, m)
	m = Metrics{"time/step": 2, "time/validate": 1}
	m.AddAliases(KindValidate)
	require.Equal(t, Metrics{"time/step": 2, "time/validate": 1, "timing_s/testing": 1}, m)
}
