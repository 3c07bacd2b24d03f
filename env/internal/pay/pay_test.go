package pay

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/reward"
)

func said(sections map[string]string) env.Outcome {
	return env.Outcome{Response: reward.Response{Sections: sections}, Turn: env.Metrics{}}
}

func TestDescriptionPaysTheShareOfRightWords(t *testing.T) {
	out := said(map[string]string{"observation": "goal up left same"})
	Description(&out, "observation", 0.5, func() string { return "goal up right same" })
	Description(&out, "prediction", 0.5, func() string { return "goal up" })
	Description(&out, "observation", 0, func() string { panic("nobody pays for the truth") })
	require.Equal(t, reward.Parts{{Name: "observation", Value: 0.375}}, out.Reward)
	require.Equal(t, env.Metrics{"observation_score": 0.75, "prediction_score": 0}, out.Turn)
}

func TestClaimsAreAboutTheStateBeforeAndAfterTheTurn(t *testing.T) {
	turn := Turn[int]{Env: "pond", Before: 1, After: 2, Grounding: 0.5, WorldModeling: 0.25,
		Truth: func(c *reward.Claim, state int) { c.State = fmt.Sprint("state ", state) }}
	out := said(map[string]string{reward.SectionObservation: "a frog", reward.SectionPrediction: "a leap"})
	Claims(&out, true, turn)
	require.Equal(t, []reward.Claim{
		{Section: reward.SectionObservation, Text: "a frog", State: "state 1", Env: "pond", Weight: 0.5},
		{Section: reward.SectionPrediction, Text: "a leap", State: "state 2", Env: "pond", Weight: 0.25},
	}, out.Claims)
	require.Empty(t, out.Turn)
}

func TestClaimsOfUnrewardedFormatsEarnZeroAndAreNotJudged(t *testing.T) {
	out := said(map[string]string{reward.SectionPrediction: "a leap"})
	Claims(&out, false, Turn[int]{Truth: func(*reward.Claim, int) { panic("nobody judges it") }})
	require.Empty(t, out.Claims)
	require.Equal(t, env.Metrics{env.ClaimMetric(reward.SectionPrediction): 0}, out.Turn)
}
