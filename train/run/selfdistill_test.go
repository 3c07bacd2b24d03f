package run

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/internal/testkit"
	"vagen/internal/tinymodel"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/policy/vlm/tokenizer"
	"vagen/rollout"
	"vagen/train/config"
)

// selfTaught is tinyRun with a policy that is its own teacher, and one start state a step.
func selfTaught(t *testing.T) config.Config {
	t.Helper()
	c := tinyRun("concat")
	c.Algorithm.Estimator, c.Critic.Kind, c.Agent.Actor.Entropy = "reinforce_plus_plus", "none", 0
	c.Agent.Actor.Loss.Mode, c.Algorithm.SelfDistill.Teacher = "ref_kl", "shortest_path"
	c.Data.TrainBatch, c.Trainer.TestFreq, c.Trainer.ValBefore, c.Trainer.SaveFreq = 1, -1, false, 1
	c.Rollout.MaxTurns = 2
	c.Agent.Model.Path = tinymodel.Create(t, tinymodel.Shape(), lakeWords, 3)
	return c
}

// pupil is a model that looks at its updates first. If it is silent, demonstrations have no tokens.
type pupil struct {
	*vlm.Model
	silent bool
	before func(b *policy.Batch) error
	norms  []float64
}

func (p *pupil) EncodeSystem(text string) ([]int32, error) {
	if p.silent {
		return nil, nil
	}
	return p.Model.EncodeSystem(text)
}

func (p *pupil) Update(
	ctx context.Context, b *policy.Batch, o policy.Objective, opt policy.Optimizer,
) (policy.Stats, error) {
	if err := p.before(b); err != nil {
		return policy.Stats{}, err
	}
	s, err := p.Model.Update(ctx, b, o, opt)
	p.norms = append(p.norms, s.GradNorm)
	return s, err
}

// learnAs trains a pupil in a folder.
func learnAs(t *testing.T, p *pupil, c config.Config, dir string) error {
	t.Helper()
	open := func(ctx context.Context, _ string) (_ policy.Learner, err error) {
		p.Model, err = vlm.Open(ctx, c.Agent.Model.Path, ModelOptions(&c, nil))
		return p, err
	}
	r, err := Open(t.Context(), c, Options{Dir: dir, Learner: open})
	require.NoError(t, err)
	return errors.Join(r.Train(t.Context()), r.Close())
}

// lesson is the text that the teacher reads at the start state of a seed.
func lesson(t *testing.T, c *config.Config, seed int64) string {
	t.Helper()
	e, err := frozenlake.FromConfig(c.Env.Config)
	require.NoError(t, err)
	_, err = e.Reset(t.Context(), seed)
	require.NoError(t, err)
	var said []string
	for turn, done := 0, false; turn < c.Rollout.MaxTurns && !done; turn++ {
		r := rollout.ScriptRand(c.Run.Seed, uint64(seed), uint64(turn))
		text, err := e.(env.Teacher).Teach("shortest_path", 0, r)
		require.NoError(t, err)
		out, err := e.Step(t.Context(), text)
		require.NoError(t, err)
		said, done = append(said, text), out.Done
	}
	return "<|im_start|>system\nHere is an example of an expert response:\n<demonstration>\n" +
		strings.Join(said, "\n") + "\n</demonstration><|im_end|>\n"
}

// TestATeachersLogProbsAreThoseBehindTheDemonstration, of rows with pictures; and a teacher that reads nothing more
// than the policy teaches nothing.
func TestATeachersLogProbsAreThoseBehindTheDemonstration(t *testing.T) {
	var norms []float64
	for _, silent := range []bool{false, true} {
		c := selfTaught(t)
		c.Trainer.Steps = 1
		tok, err := tokenizer.Load(c.Agent.Model.Path)
		require.NoError(t, err)
		p := &pupil{silent: silent}
		p.before = func(b *policy.Batch) error {
			hint, err := tok.Encode(lesson(t, &c, c.Env.Seed))
			require.NoError(t, err)
			for row := range b.Len() {
				from, to := b.Offsets[row], b.Offsets[row+1]
				if silent {
					hint = nil
				}
				require.NotEmpty(t, b.Images[row])
				whole := append(append([]int32{}, hint...), b.Tokens[from:to]...)
				want := make([]bool, len(whole))
				for i, w := range b.Weight[from:to] {
					want[len(hint)+i] = w != 0
				}
				rows := &policy.Rows{Offsets: []int{0, len(whole)}, Tokens: whole, Images: b.Images[row:][:1]}
				s, err := p.Score(t.Context(), rows, want, policy.ScoreRequest{LogProbs: true}, 1)
				require.NoError(t, err)
				for i, w := range b.Weight[from:to] {
					if w != 0 { // rows are packed otherwise
						require.InDelta(t, s.LogProbs[len(hint)+i], b.Reference[from+i], 1e-4)
					}
				}
			}
			return nil
		}
		require.NoError(t, learnAs(t, p, c, filepath.Join(t.TempDir(), "run")))
		require.Len(t, p.norms, 1)
		norms = append(norms, p.norms[0])
	}
	require.Greater(t, norms[0], 1e-2)
	require.Less(t, norms[1], 1e-4, "but for the last bits of log-probs")
}

// TestARunThatTeachesItselfResumes from a checkpoint with the same bytes, by the likeliest tokens.
func TestARunThatTeachesItselfResumes(t *testing.T) {
	c := selfTaught(t)
	c.Agent.Actor.Loss.Mode, c.Agent.Actor.Loss.DistillKL, c.Agent.Actor.Loss.DistillTopK = "opd", "forward_kl_topk", 3
	root := t.TempDir()
	whole, parts := filepath.Join(root, "whole"), filepath.Join(root, "parts")
	updates := 0
	p := &pupil{before: func(*policy.Batch) error { updates++; return nil }}
	require.NoError(t, learnAs(t, p, c, whole))
	require.Equal(t, 2, updates)
	updates = 0
	q := &pupil{before: func(*policy.Batch) error {
		if updates++; updates == 2 {
			return traintest.ErrBroken
		}
		return nil
	}}
	require.ErrorIs(t, learnAs(t, q, c, parts), traintest.ErrBroken)
	require.NoError(t, learnAs(t, q, c, parts))
	require.Equal(t, 3, updates)
	want := leaves(t, whole)
	require.NotEmpty(t, want["checkpoints/step_2/actor/model.safetensors"])
	require.Equal(t, want, leaves(t, parts))
	require.Greater(t, p.norms[1], 1e-3)
}

// noting is a model whose workload is recorded.
type noting struct {
	*vlm.Model
	of *vlm.Workload
}

func (n noting) Plan(w vlm.Workload) (vlm.MemoryPlan, error) {
	*n.of = w
	return n.Model.Plan(w)
}

// TestDemonstrationsArePlanned, and environments without the script found before the run begins.
func TestDemonstrationsArePlanned(t *testing.T) {
	c := selfTaught(t)
	c.Trainer.TestFreq, c.Data.ValBatch = 1, 6
	envs, levels, err := checked(t, &c)
	require.NoError(t, err)
	m, err := vlm.Open(t.Context(), c.Agent.Model.Path, ModelOptions(&c, nil))
	require.NoError(t, err)
	defer m.Close()
	var w vlm.Workload
	_, err = planMemory(t.Context(), &c, config.Registries{}, noting{m, &w}, envs, levels)
	require.NoError(t, err)
	hint, err := m.EncodeSystem(strings.TrimSuffix(
		strings.TrimPrefix(lesson(t, &c, levels.First().Seed), "<|im_start|>system\n"), "<|im_end|>\n"))
	require.NoError(t, err)
	require.Equal(t, len(hint), w.Hint)
	require.Equal(t, 6, w.Played)
	c.Data.GenBatch = 5
	_, err = planMemory(t.Context(), &c, config.Registries{}, noting{m, &w}, envs, levels)
	require.NoError(t, err)
	require.Equal(t, 5*c.Rollout.Trajectories, w.Played, "the first round of a step is larger than a step")
	c.Data.GenBatch = 0
	w.Rows, w.Compared.By, w.Compared.K = 4, "teacher", 100
	longer, err := m.Plan(w)
	require.NoError(t, err)
	w.Hint = 0
	plain, err := m.Plan(w)
	require.NoError(t, err)
	require.Equal(t, int64(4*100*8*(w.Tokens+len(hint))), longer.Compared-plain.Compared)

	c.Algorithm.SelfDistill.Teacher = "swim"
	_, _, err = checked(t, &c)
	testkit.Error(t, err, config.ErrConfig,
		"teacher is swim, which frozenlake does not have, must be shortest_path, hole_shy")
	c.Env.Name, c.Env.Config = "blackjack", nil
	_, _, err = checked(t, &c)
	require.ErrorContains(t, err, "teacher is swim, which blackjack does not have, must be an environment with scripts")
}
