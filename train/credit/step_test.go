package credit_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/credit"
)

// grouped is a run whose critic has values that matter.
func grouped(estimator string) (config.Config, *traintest.Bandit) {
	c := traintest.Grouped()
	c.Algorithm.Estimator, c.Algorithm.TurnGamma = estimator, 0.9
	c.Critic.OnTurnEnds = estimator == "turn_wise_gae"
	c.Env.Config = map[string]any{"turns": uint64(3)}
	c.Rollout.MaxTurns = 3
	b := traintest.Guesser()
	for _, s := range []int{0, 1, 2} {
		b.Values[traintest.State(policy.Message{Role: policy.User, Text: fmt.Sprintf("<image> colour %d", s)})] = 0.3 * float64(s+1)
	}
	return c, b
}

// recordedStep plays one step and returns what a run records of it, and the batch of its
// update.
func recordedStep(t *testing.T, c config.Config, b *traintest.Bandit) (*credit.Step, *policy.Batch) {
	t.Helper()
	tr, _ := traintest.Trainer(t, c, b, &traintest.Arena{})
	s := &credit.Step{Config: &c}
	tr.Observer = traintest.Hooks{OnPlayed: func(_ int, ts []*rollout.Trajectory) error {
		s.Episodes = ts
		return nil
	}}
	require.NoError(t, tr.Run(t.Context()))
	u := b.Updates[0].Batch
	spec, err := advantage.Describe(c.Algorithm.Estimator)
	require.NoError(t, err)
	l, err := train.LayOut(s.Episodes, &c, spec)
	require.NoError(t, err)
	require.Equal(t, l.Batch.Offsets, u.Offsets)
	cut := func(x []float32, from, to int) []float32 {
		if x == nil {
			return nil
		}
		return x[from:to]
	}
	for i, r := range l.Rows {
		first, last := u.Offsets[i], u.Offsets[i+1]
		s.Scores = append(s.Scores, credit.Scores{
			Group: r.Episode.Group, Index: r.Episode.Index, Row: r.Row,
			Rewards: l.Batch.Rewards[first:last], Loss: l.Loss[first:last], Value: l.Value[first:last],
			Values: cut(u.OldValues, first, last), Advantages: u.Advantages[first:last], Returns: u.Returns[first:last],
		})
	}
	return s, u
}

func TestTheRunsOwnEstimatorGivesTheRecordedBits(t *testing.T) {
	for _, name := range advantage.Names() {
		if name == "remax" {
			continue
		}
		c, b := grouped(name)
		s, u := recordedStep(t, c, b)
		got, err := s.Estimate(name, c.Params())
		require.NoError(t, err, name)
		require.Len(t, got.Rows, u.Len(), name)
		for i, r := range got.Rows {
			for k := range r.Advantages {
				at := u.Offsets[i] + k
				require.Equal(t, math.Float32bits(u.Advantages[at]), math.Float32bits(r.Advantages[k]), "%s: row %d, token %d", name, i, k)
				require.Equal(t, math.Float32bits(u.Returns[at]), math.Float32bits(r.Returns[k]), "%s: row %d, token %d", name, i, k)
			}
		}
		require.Len(t, got.Turns, 3*u.Len(), name)
	}
}

// TestAClaimIsTheMeanBeforeWhitening over the tokens of a turn that the loss counts.
func TestAClaimIsTheMeanBeforeWhitening(t *testing.T) {
	c, b := grouped("bi_level_gae")
	c.Algorithm.Gamma = 0.9
	s, _ := recordedStep(t, c, b)
	first, second, ok := s.Episodes[0].Rows[0].TurnAt(1)
	require.True(t, ok)
	require.Equal(t, first+2, second, "a word and an end token")
	second--
	p := c.Params()
	got, err := s.Estimate("bi_level_gae", p)
	require.NoError(t, err)
	p.Whiten = false
	plain, err := s.Estimate("bi_level_gae", p)
	require.NoError(t, err)
	require.Equal(t, plain.Turns, got.Turns)
	rows, turns := plain.Episode(0, 0)
	a := rows[0].Advantages
	require.NotEqual(t, a[first], a[second])
	require.Equal(t, (float64(a[first])+float64(a[second]))/2, turns[1].Claim)
	require.Equal(t, float64(a[second]), turns[1].End)

	s.Scores[0].Loss[second] = false
	got, err = s.Estimate("bi_level_gae", p)
	require.NoError(t, err)
	require.Equal(t, float64(a[first]), got.Turns[1].Claim)
	s.Scores[0].Loss[first] = false
	got, err = s.Estimate("bi_level_gae", p)
	require.NoError(t, err)
	require.True(t, math.IsNaN(got.Turns[1].Claim))
}

func TestOtherEstimatorsSayWhyTheyCannotBeComputed(t *testing.T) {
	for _, c := range []struct {
		run, other, why string
		change          func(*config.Config, *credit.Step)
	}{
		{"masked_gae", "remax", "greedy episode", nil},
		{"masked_gae", "gae", "values of all tokens", nil},
		{"masked_gae", "grpo", "n_trajectory is 1", func(c *config.Config, _ *credit.Step) { c.Rollout.Trajectories = 1 }},
		{"grpo", "masked_gae", "use_gae_mask is false", func(c *config.Config, _ *credit.Step) { c.Rollout.GAEMask = false }},
		{"grpo", "bi_level_gae", "numbers of tokens were not recorded", func(_ *config.Config, s *credit.Step) { s.Scores = nil }},
		{"grpo", "rloo", "changes rewards", func(c *config.Config, s *credit.Step) { s.Scores, c.Algorithm.KLInReward = nil, true }},
		{"grpo", "bi_level_gae", "0 were recorded", func(_ *config.Config, s *credit.Step) { s.Scores[1].Values = nil }},
		{"grpo", "rloo", "no recorded numbers", func(_ *config.Config, s *credit.Step) { s.Scores = s.Scores[1:] }},
		{"grpo", "rloo", "marks of the loss were recorded", func(_ *config.Config, s *credit.Step) { s.Scores[0].Loss = s.Scores[0].Loss[1:] }},
		{"token_level_gae", "bi_level_gae", "may split an episode", func(c *config.Config, _ *credit.Step) { c.Trainer.Harness = "no_concat" }},
	} {
		cfg, b := grouped(c.run)
		s, _ := recordedStep(t, cfg, b)
		if c.change != nil {
			c.change(&cfg, s)
			s.Config = &cfg
		}
		_, err := s.Estimate(c.other, cfg.Params())
		require.ErrorIs(t, err, credit.ErrUnavailable, c.why)
		require.ErrorContains(t, err, c.why)
	}
	cfg, b := grouped("grpo")
	s, _ := recordedStep(t, cfg, b)
	_, err := s.Estimate("gea", cfg.Params())
	require.ErrorIs(t, err, advantage.ErrUnknown)
	p := cfg.Params()
	p.Gamma = 2
	_, err = s.Estimate("masked_gae", p)
	require.ErrorIs(t, err, advantage.ErrParameter)
}
