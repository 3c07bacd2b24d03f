package rollout_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/mask"
	"vagen/reward"
	"vagen/reward/judge"
	"vagen/rollout"
)

// sections are the sections that the recorded rewards belong to.
var sections = []struct{ reward, section string }{
	{"state_estimation", reward.SectionObservation}, {"transition_prediction", reward.SectionPrediction},
}

// stated is one recorded turn.
type stated struct {
	enabled, weights     map[string]float64
	site, scorer         string
	base, outcome        float64
	horizon, turns       float64
	perTurn, formatWrong bool
	texts                []string
	special              []int
	replies              []string
	gold                 map[string][]reward.Relation
}

func readStated(c *golden.Run) (s stated) {
	c.Helper()
	for name, into := range map[string]any{
		"enabled": &s.enabled, "object_weights": &s.weights, "credit_site": &s.site, "scorer": &s.scorer,
		"score_base": &s.base, "outcome": &s.outcome, "episode_horizon": &s.horizon, "episode_turns": &s.turns,
	} {
		golden.Need(c, c.Params, name, into)
	}
	for name, into := range map[string]any{
		"token_texts": &s.texts, "token_special": &s.special, "judge_replies": &s.replies, "gold": &s.gold,
	} {
		golden.Need(c, c.Inputs, name, into)
	}
	s.perTurn = golden.Param[string](c, "aggregation") == "per_turn"
	s.formatWrong = !golden.ParamOr(c, "protocol_correct", true)
	return s
}

// Ends implements policy.Aligner; the k-th token is the k-th text, and special
// tokens have none.
func (s stated) Ends(tokens []int32) []int {
	ends, at := make([]int, len(tokens)), 0
	for k := range tokens {
		at += len(s.text(k))
		ends[k] = at
	}
	return ends
}

func (s stated) text(k int) string {
	if s.special[k] == 1 {
		return ""
	}
	return s.texts[k]
}

// parts computes the reward of one turn as an environment with a judge does.
func (s stated) parts(t testing.TB, r reward.Response) (parts reward.Parts, scores map[string]float64) {
	t.Helper()
	scores = make(map[string]float64)
	scorers := map[string]reward.Scorer{"sokoban": &reward.AssignmentScorer{Weights: s.weights, Other: 1}}
	var claims []reward.Claim
	for _, about := range sections {
		if weight, on := s.enabled[about.reward]; on {
			scores[about.reward] = 0
			claims = append(claims, reward.Claim{Section: about.section, Text: r.Sections[about.section],
				Truth: s.gold[about.reward], Env: "sokoban", Weight: weight})
		}
	}
	parts = reward.Parts{{Name: "outcome", Value: s.outcome}}
	if !r.FormatCorrect || s.formatWrong {
		return parts, scores
	}
	var got []float64
	var err error
	if s.scorer == "exact" {
		got, err = (&judge.Rules{Literal: true, Scoring: judge.Scoring{Base: s.base, Scorers: scorers}}).Score(t.Context(),
			claims)
	} else {
		got, err = (&judge.Model{Scoring: judge.Scoring{Base: s.base, Scorers: scorers},
			Complete: func(_ context.Context, prompts []string) ([]string, []error, error) {
				return s.replies[:len(prompts)], make([]error, len(prompts)), nil
			}}).Score(t.Context(), claims)
	}
	require.NoError(t, err)
	for i, c := range claims {
		for _, about := range sections {
			if about.section == c.Section {
				scores[about.reward] = got[i] * c.Weight
			}
		}
		parts = append(parts, reward.Part{Name: c.Section, Value: got[i] * c.Weight})
	}
	return parts, scores
}

// Recorded from VAGEN next (testdata/algorithms_next/state_reward.json):
// a turn's reward for its statements about the state, the token it is placed on, and
// its value after the episode has ended. Rewards per token are float32 here.
func TestStateRewardsEqualTheOriginal(t *testing.T) {
	parser, err := reward.NewParser("wm_think", reward.ParserOptions{Dialect: reward.Next})
	require.NoError(t, err)
	golden.Each(t, "algorithms_next/state_reward.json", func(c *golden.Run) {
		s := readStated(c)
		var text strings.Builder
		tokens := make([]int32, len(s.texts))
		for k := range s.texts {
			text.WriteString(s.text(k))
			tokens[k] = int32(k)
		}
		golden.Same(c, "action", text.String())
		r := parser.Parse(text.String())
		parts, scores := s.parts(c, r)
		for name, want := range golden.Expected[map[string]float64](c, "scores") {
			c.Float(name, scores[name], want)
		}
		c.Number("turn_total", parts.Sum())
		c.Tolerance = golden.Tolerance{Abs: math.Max(c.Tolerance.Abs, 1e-7), Rel: 1e-6} // rewards of tokens are float32
		s.place(c, "rewards", tokens, text.String(), r, parts)
		if !s.perTurn {
			episode := make([]reward.Parts, int(s.turns))
			episode[0] = parts
			reward.EpisodeMean(episode, int(s.horizon), reward.SectionObservation, reward.SectionPrediction)
			parts = episode[0]
		}
		s.place(c, "finalized_rewards", tokens, text.String(), r, parts)
	})
}

// place compares the rewards of the turn's tokens.
func (s stated) place(
	c *golden.Run, field string, tokens []int32, text string, r reward.Response, parts reward.Parts,
) {
	c.Helper()
	tr := &rollout.Trajectory{Rows: []rollout.Row{{}}}
	row := &tr.Rows[0]
	require.NoError(c, row.AppendContext(mask.Observation, 1, 2))
	require.NoError(c, row.AppendResponse(tokens...))
	tr.Turns = []rollout.Turn{{Response: text, Parsed: r, Reward: parts}}
	how := reward.PerTurn
	if s.site == "section_end" {
		how = reward.PerSpan
		require.NoError(c, rollout.MarkSpans(s, []*rollout.Trajectory{tr}))
	}
	got, err := tr.Rewards(nil, 0, how)
	require.NoError(c, err)
	golden.Numbers(c, field, got[2:])
}
