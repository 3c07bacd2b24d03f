package turns

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/options"
	"vagen/reward"
)

func said(sections map[string]string) env.Outcome {
	return env.Outcome{Response: reward.Response{Sections: sections}, Turn: env.Metrics{}}
}

func base(t *testing.T, o options.Ruled) Base {
	t.Helper()
	b, err := New("pond", o, reward.ParserOptions{Dialect: reward.Lite})
	require.NoError(t, err)
	return b
}

// judged are the options of an environment whose claims are rewarded.
func judged() options.Ruled {
	o := options.DefaultRuled(env.Next)
	o.PromptFormat, o.MaxActions, o.ActionSep = "wm", 2, ","
	o.StateReward = options.StateReward{UseStateReward: true, GroundingWeight: 0.5, WorldModelingWeight: 0.25}
	return o
}

func TestDescribePaysTheShareOfRightWords(t *testing.T) {
	out := said(map[string]string{"observation": "goal up left same"})
	Describe(&out, "observation", 0.5, func() string { return "goal up right same" })
	Describe(&out, "prediction", 0.5, func() string { return "goal up" })
	Describe(&out, "observation", 0, func() string { panic("not paid") })
	require.Equal(t, reward.Parts{{Name: "observation", Value: 0.375}}, out.Reward)
	require.Equal(t, env.Metrics{"observation_score": 0.75, "prediction_score": 0}, out.Turn)
}

func TestClaimsAreAboutTheStateBeforeAndAfterTheTurn(t *testing.T) {
	b := base(t, judged())
	require.True(t, b.Claiming())
	out := said(map[string]string{reward.SectionObservation: "a frog", reward.SectionPrediction: "a leap"})
	Claim(&b, &out, "pond", true, 1, 2, func(c *reward.Claim, state int) { c.State = fmt.Sprint("state ", state) })
	require.Equal(t, []reward.Claim{
		{Section: reward.SectionObservation, Text: "a frog", State: "state 1", Env: "pond", Weight: 0.5},
		{Section: reward.SectionPrediction, Text: "a leap", State: "state 2", Env: "pond", Weight: 0.25},
	}, out.Claims)
	require.Empty(t, out.Turn)
}

func TestClaimsOfUnrewardedFormatsEarnZeroAndAreNotJudged(t *testing.T) {
	b := base(t, judged())
	out := said(map[string]string{reward.SectionPrediction: "a leap"})
	Claim(&b, &out, "pond", false, 1, 2, func(*reward.Claim, int) { panic("not judged") })
	require.Empty(t, out.Claims)
	require.Equal(t, env.Metrics{env.ClaimMetric(reward.SectionPrediction): 0}, out.Turn)
}

func TestWithoutStateRewardThereAreNoClaims(t *testing.T) {
	o := judged()
	o.UseStateReward = false
	b := base(t, o)
	require.False(t, b.Claiming())
	out := said(map[string]string{reward.SectionObservation: "a frog"})
	Claim(&b, &out, "pond", false, 1, 2, func(*reward.Claim, int) { panic("not judged") })
	require.Empty(t, out.Claims)
	require.Empty(t, out.Turn)
}

func TestTheNextRulesRefuseTooManyActionsAndStrictOnesDropThem(t *testing.T) {
	o := judged()
	b := base(t, o)
	response := b.Parser().Compose(func(section string) string { return map[string]string{reward.SectionAnswer: "Up,Up,Up"}[section] + "x" })
	r := Read(&b, response)
	require.False(t, r.FormatCorrect)
	require.Len(t, r.Actions, 2)
	strict := b.Strict(true)
	require.Empty(t, Read(&strict, response).Actions)
	o.Rules = env.Lite
	lite := base(t, o)
	require.Equal(t, reward.Lite, lite.Parser().Dialect())
}
