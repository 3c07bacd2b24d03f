package credit_test

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/store"
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
		b.Values[traintest.State(policy.Message{Role: policy.User,
			Text: fmt.Sprintf("<image> colour %d", s)})] = 0.3 * float64(s+1)
	}
	return c, b
}

// recordedStep plays one step and returns what the run records of it, read from files.
func recordedStep(t *testing.T, c config.Config, b *traintest.Bandit) *credit.Step {
	t.Helper()
	dir := t.TempDir()
	c.Trainer.RolloutDir, c.Trainer.RolloutScores, c.Trainer.Steps = &dir, true, 1
	tr, _ := traintest.Trainer(t, c, b, nil)
	tr.Handled = []string{"trainer."}
	tr.Observer = traintest.Hooks{
		OnPlayed: func(step int, ts []*rollout.Trajectory) error {
			return store.Save(filepath.Join(dir, "e.parquet"), step, ts)
		},
		OnEstimated: func(step int, s []store.Scores) error {
			return store.SaveScores(filepath.Join(dir, "s.parquet"), step, s)
		},
	}
	require.NoError(t, tr.Run(t.Context()))
	s := &credit.Step{Config: &c}
	stored, err := store.Load(filepath.Join(dir, "e.parquet"))
	require.NoError(t, err)
	for _, e := range stored {
		s.Episodes = append(s.Episodes, e.Trajectory)
	}
	s.Scores, err = store.LoadScores(filepath.Join(dir, "s.parquet"))
	require.NoError(t, err)
	return s
}

func TestTheRunsOwnEstimatorGivesTheRecordedBits(t *testing.T) {
	for _, name := range advantage.Names() {
		spec, err := advantage.Describe(name)
		require.NoError(t, err)
		if spec.Baselines || spec.Squares || spec.Running { // read what runs do not record
			continue
		}
		for _, more := range []string{"kl", "normalized", "window"} {
			c, b := grouped(name)
			switch more {
			case "kl":
				c.Algorithm.KLInReward, c.Algorithm.KLCtrl.Coef, b.Drift = true, 0.1, 0.5
			case "normalized":
				c.Reward.Normalize, c.Algorithm.Whiten = "batch", false
			case "window":
				if spec.RowLocal {
					continue
				}
				one := 1
				c.Trainer.Harness, c.Rollout.WindowSize = "window", &one
			}
			s := recordedStep(t, c, b)
			got, err := s.Estimate(name, c.Algorithm.Params)
			require.NoError(t, err, name)
			require.Len(t, got.Rows, len(s.Scores), name)
			for i, r := range got.Rows {
				was := s.Scores[i]
				require.Equal(t, []int{was.Group, was.Index, was.Row}, []int{r.Group, r.Index, r.Row})
				require.Equal(t, bits(was.Advantages), bits(r.Advantages), "%s %s: row %d", name, more, i)
				require.Equal(t, bits(was.Returns), bits(r.Returns), "%s %s: row %d", name, more, i)
			}
			require.Len(t, got.Turns, 3*len(s.Episodes), name)
		}
	}
}

func bits(xs []float32) []uint32 {
	out := make([]uint32, len(xs))
	for i, x := range xs {
		out[i] = math.Float32bits(x)
	}
	return out
}

// TestAClaimIsTheMeanBeforeWhitening over the tokens of a turn that the loss counts.
func TestAClaimIsTheMeanBeforeWhitening(t *testing.T) {
	c, b := grouped("bi_level_gae")
	c.Algorithm.Gamma = 0.9
	s := recordedStep(t, c, b)
	first, second, ok := s.Episodes[0].Rows[0].TurnAt(1)
	require.True(t, ok)
	require.Equal(t, first+2, second, "a word and an end token")
	second--
	p := c.Algorithm.Params
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
		{"grpo", "optimal_token_baseline", "sum of the squares", nil},
		{"grpo", "rae", "means over the steps before", nil},
		{"masked_gae", "gae", "values of all tokens", nil},
		{"masked_gae", "grpo", "n_trajectory is 1", func(c *config.Config, _ *credit.Step) { c.Rollout.Trajectories = 1 }},
		{"grpo", "masked_gae", "use_gae_mask is false", func(c *config.Config, _ *credit.Step) { c.Rollout.GAEMask = false }},
		{"grpo", "bi_level_gae", "numbers of tokens were not recorded", func(_ *config.Config, s *credit.Step) {
			s.Scores = nil
		}},
		{"grpo", "rloo", "changes rewards", func(c *config.Config, s *credit.Step) {
			s.Scores, c.Algorithm.KLInReward = nil, true
		}},
		{"grpo", "bi_level_gae", "0 values", func(_ *config.Config, s *credit.Step) { s.Scores[1].Values = nil }},
		{"grpo", "rloo", "no recorded numbers", func(_ *config.Config, s *credit.Step) { s.Scores = s.Scores[1:] }},
		{"grpo", "rloo", "entries of the loss mask were recorded", func(_ *config.Config, s *credit.Step) {
			s.Scores[0].Loss = s.Scores[0].Loss[1:]
		}},
		{"token_level_gae", "bi_level_gae", "may split an episode", func(c *config.Config, _ *credit.Step) {
			c.Trainer.Harness = "no_concat"
		}},
	} {
		cfg, b := grouped(c.run)
		s := recordedStep(t, cfg, b)
		if c.change != nil {
			c.change(&cfg, s)
			s.Config = &cfg
		}
		_, err := s.Estimate(c.other, cfg.Algorithm.Params)
		testkit.Error(t, err, credit.ErrUnavailable, c.why)
	}
	cfg, b := grouped("grpo")
	s := recordedStep(t, cfg, b)
	_, err := new(credit.Step).Estimate("grpo", cfg.Algorithm.Params)
	testkit.Error(t, err, credit.ErrUnavailable, "Step.Config is nil")
	_, err = s.Estimate("gea", cfg.Algorithm.Params)
	require.ErrorIs(t, err, advantage.ErrUnknown)
	p := cfg.Algorithm.Params
	p.Gamma = 2
	_, err = s.Estimate("masked_gae", p)
	require.ErrorIs(t, err, advantage.ErrParameter)
}
