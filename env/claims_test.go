package env_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/reward"
)

func TestClaimsArePaidByWeightAndMissingScoresAreNotZero(t *testing.T) {
	out := env.Outcome{Reward: reward.Parts{{Name: "format", Value: 0.5}}, Claims: []reward.Claim{
		{Section: reward.SectionObservation, Weight: 0.5}, {Section: reward.SectionPrediction, Weight: 0.25}}}
	require.Error(t, out.PayClaims([]float64{1}))
	require.Error(t, out.PayClaims([]float64{1, math.Inf(1)}))
	require.Len(t, out.Reward, 1)
	require.NoError(t, out.PayClaims([]float64{0.5, math.NaN()}))
	require.Equal(t, reward.Parts{{Name: "format", Value: 0.5}, {Name: "observation", Value: 0.25}}, out.Reward)
	require.Equal(t, env.Metrics{"grounding_reward": 0.25}, out.Turn)
	require.Equal(t, "worldmodeling_reward", env.ClaimMetric(reward.SectionPrediction))
	require.Equal(t, "answer_reward", env.ClaimMetric(reward.SectionAnswer))
}
