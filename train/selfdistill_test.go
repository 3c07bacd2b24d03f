package train_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
)

// pupil is a bandit that is its own teacher: it says of the tokens that a loss compares where they are.
type pupil struct {
	*traintest.Bandit
	limit int
	fails error
}

func (p pupil) MaxPositions() int { return p.limit }

func (p pupil) EncodeSystem(text string) ([]int32, error) {
	return []int32{1 << 13, traintest.State(policy.Message{Role: policy.System, Text: text})}, p.fails
}

func (p pupil) Score(
	ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest, temperature float64,
) (*policy.Scores, error) {
	s, err := p.Bandit.Score(ctx, rows, want, what, temperature)
	if err == nil && what.Choice.By != "" {
		for i, token := range rows.Tokens {
			s.Chosen = append(s.Chosen, token, int32(i))
			s.Teacher = append(s.Teacher, -1, -2)
		}
	}
	return s, err
}

func (p pupil) Update(
	_ context.Context, b *policy.Batch, _ policy.Objective, _ policy.Optimizer,
) (policy.Stats, error) {
	p.Updates = append(p.Updates, traintest.Update{Batch: b})
	return policy.Stats{Tokens: len(b.Tokens)}, nil
}

// walks is a configuration of FrozenLake in which the policy is its own teacher.
func walks() config.Config {
	c := traintest.Grouped()
	c.Env.Name, c.Env.Config = "frozenlake", map[string]any{"render_mode": "text", "max_actions_per_step": 1, "size": 3}
	c.Algorithm.Estimator, c.Critic.Kind = "grpo", "none"
	c.Data.TrainBatch, c.Rollout.MaxTurns, c.Agent.Actor.MiniBatch = 2, 4, 6
	c.Agent.Actor.Loss.Mode, c.Algorithm.SelfDistill.Teacher = "ref_kl", "shortest_path"
	return c
}

// demonstrated plays the script in an episode's environment.
func demonstrated(t *testing.T, envs *env.Registry, c *config.Config, of rollout.Episode) (said []string) {
	t.Helper()
	e, err := envs.New(of.Env, of.Config)
	require.NoError(t, err)
	_, err = e.Reset(t.Context(), of.Seed)
	require.NoError(t, err)
	for turn := range c.Rollout.MaxTurns {
		text, err := e.(env.Teacher).Teach("shortest_path", 0, rollout.ScriptRand(c.Run.Seed, uint64(of.Seed), uint64(turn)))
		require.NoError(t, err)
		said = append(said, text)
		out, err := e.Step(t.Context(), text)
		require.NoError(t, err)
		if out.Done {
			return said
		}
	}
	return said
}

// TestRowsAreScoredBehindTheirDemonstrations: each behind that of its own start state, at its own tokens, and without
// one if the model reads no more.
func TestRowsAreScoredBehindTheirDemonstrations(t *testing.T) {
	for _, limit := range []int{0, 19} {
		c := walks()
		c.Agent.Actor.Loss.Mode, c.Agent.Actor.Loss.SDFTMode, c.Agent.Actor.Loss.SDFTTopK = "sdft", "reverse_kl", 2
		b := traintest.Walker()
		tr, events := traintest.Trainer(t, c, b, nil)
		tr.Learner = pupil{Bandit: b}
		collected, err := tr.Collect(t.Context(), 1)
		require.NoError(t, err)
		tr.Learner = pupil{Bandit: b, limit: limit}
		_, err = tr.Step(t.Context(), collected)
		require.NoError(t, err)
		require.Empty(t, *events)
		require.Len(t, b.Asked, 2)
		plain, hinted := b.Asked[0], b.Asked[1]
		require.Equal(t, policy.ScoreRequest{LogProbs: true}, plain.What)
		require.Equal(t, policy.ScoreRequest{LogProbs: true, Choice: loss.Choice{By: loss.ByItself, K: 2}}, hinted.What)
		require.Equal(t, plain.Rows.Images, hinted.Rows.Images)
		left, batch := 0, b.Updates[0].Batch
		for row := range plain.Rows.Len() {
			from, to := plain.Rows.Offsets[row], plain.Rows.Offsets[row+1]
			said := demonstrated(t, tr.Envs, &c, collected.Episodes[row].Episode)
			text := strings.Replace(c.Algorithm.SelfDistill.Template, "{demonstration}", strings.Join(said, "\n"), 1)
			hint, _ := tr.Learner.(pupil).EncodeSystem(text)
			if limit > 0 && to-from+2 > limit {
				hint, left = nil, left+1
			}
			begin, end := hinted.Rows.Offsets[row], hinted.Rows.Offsets[row+1]
			require.Equal(t, append(hint, plain.Rows.Tokens[from:to]...), hinted.Rows.Tokens[begin:end])
			require.Equal(t, append(make([]bool, len(hint)), plain.Want[from:to]...), hinted.Want[begin:end])
			for i := range to - from {
				require.Equal(t, []int32{batch.Tokens[from+i], int32(begin + len(hint) + i)}, batch.Chosen[2*(from+i):][:2])
			}
		}
		require.Len(t, batch.Teacher, 2*len(batch.Tokens))
		if limit > 0 {
			require.Positive(t, left)
			require.Less(t, left, plain.Rows.Len())
		}
	}
}

// TestAPolicyWithoutItsOwnTeacherIsRefused before the first step.
func TestAPolicyWithoutItsOwnTeacherIsRefused(t *testing.T) {
	for want, change := range map[string]func(*train.Trainer, *traintest.Bandit){
		"shortest_path, but the learner (*traintest.Bandit) does not implement": func(tr *train.Trainer,
			b *traintest.Bandit) {
			tr.Learner = b
		},
		"algorithm.self_distillation.template: broken": func(tr *train.Trainer, b *traintest.Bandit) {
			tr.Learner = pupil{Bandit: b, fails: traintest.ErrBroken}
		},
		`unknown script: "shortest_path", the environment has no scripts`: func(tr *train.Trainer, _ *traintest.Bandit) {
			tr.Config.Env.Name, tr.Config.Env.Config = "guess", map[string]any{"turns": 2}
		},
	} {
		b := traintest.Walker()
		tr, _ := traintest.Trainer(t, walks(), b, nil)
		tr.Learner = pupil{Bandit: b}
		change(tr, b)
		require.ErrorContains(t, tr.Run(t.Context()), want)
		require.Empty(t, b.Updates)
	}
}
