package turns

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/options"
	"vagen/env/internal/prompts"
	"vagen/env/internal/snapshot"
	"vagen/reward"
)

func said(sections map[string]string) env.Outcome {
	return env.Outcome{Response: reward.Response{Sections: sections}, Turn: env.Metrics{}}
}

func base(t *testing.T, o options.Ruled) Base {
	t.Helper()
	b, err := New("pond", nil, o, prompts.Names{}, reward.ParserOptions{Dialect: reward.Lite})
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
	Describe(&out, 0.5, 0.25, "goal up right", "goal up", true, func(state string, more bool) string {
		if more {
			return state + " same"
		}
		return state
	})
	Describe(&out, 0, 0, "", "", true, func(string, bool) string { panic("not paid") })
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
		{Section: reward.SectionPrediction, Text: "a leap", State: "state 2", Env: "pond", Weight: 0.25,
			EarlierState: "state 1"},
	}, out.Claims)
	require.Empty(t, out.Turn)
}

func TestClaimsOfUnrewardedFormatsEarnZeroAndAreNotJudged(t *testing.T) {
	b := base(t, judged())
	out := said(map[string]string{reward.SectionPrediction: "a leap"})
	Claim(&b, &out, "pond", false, 1, 2, func(*reward.Claim, int) {})
	require.Empty(t, out.Claims)
	require.Equal(t, env.Metrics{env.ClaimMetric(reward.SectionPrediction): 0}, out.Turn)
}

// Claims have the truth of one turn earlier, also after a turn without claims; a new episode
// has none, and one that continues from a snapshot has that of the snapshot.
func TestClaimsHaveTheTruthOfOneTurnEarlier(t *testing.T) {
	b := base(t, judged())
	observed := map[string]string{reward.SectionObservation: "a frog"}
	play := func(b *Base, sections map[string]string, before, after int) (earlier []string) {
		out := said(sections)
		Claim(b, &out, "pond", true, before, after, func(c *reward.Claim, state int) { c.State = fmt.Sprint(state) })
		for _, c := range out.Claims {
			earlier = append(earlier, c.EarlierState)
		}
		return earlier
	}
	require.Nil(t, PastOf(&b).Earlier)
	require.Equal(t, []string{""}, play(&b, observed, 1, 2))
	require.Equal(t, []string{"1"}, play(&b, observed, 2, 3))
	require.Empty(t, play(&b, nil, 3, 4))
	other := base(t, judged())
	data, err := snapshot.Encode("pond", 1, PastOf(&b))
	require.NoError(t, err)
	var s Past
	require.ErrorIs(t, Load(t.Context(), &other, "pond", 1, data, &s, func() error { return env.ErrSnapshot }),
		env.ErrSnapshot)
	require.Nil(t, PastOf(&other).Earlier)
	require.NoError(t, Load(t.Context(), &other, "pond", 1, data, &s, func() error { return nil }))
	require.Equal(t, []string{"3"}, play(&b, observed, 4, 4))
	require.Equal(t, []string{"3"}, play(&other, observed, 4, 5))
	Begin(&b)
	require.Equal(t, []string{""}, play(&b, observed, 1, 2))
}

func TestATruthThatNoStateHasIsNotPossible(t *testing.T) {
	require.NoError(t, (*Truth)(nil).possible())
	require.NoError(t, (&Truth{Relations: []reward.Relation{reward.Relate("box", 1, 0)}, State: "x"}).possible())
	require.ErrorContains(t, (&Truth{Relations: []reward.Relation{{Object: "box", Vertical: "up",
		Horizontal: reward.Left}}}).possible(), `"up"`)
	require.ErrorContains(t, (&Truth{Relations: make([]reward.Relation, mostRelations+1)}).possible(), "65537 relations")
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
	response := b.Parser().Compose(func(section string) string {
		return map[string]string{reward.SectionAnswer: "Up,Up,Up"}[section] + "x"
	})
	r := Read(&b, response)
	require.False(t, r.FormatCorrect)
	require.Len(t, r.Actions, 2)
	strict := b.Strict(true)
	require.Empty(t, Read(&strict, response).Actions)
	o.Rules = env.Lite
	lite := base(t, o)
	require.Equal(t, reward.Lite, lite.Parser().Dialect())
}
