package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/internal/durable"
	"vagen/internal/regular"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/credit"
)

// compared are the estimators: with a critic, with groups, with neither.
var compared = []string{
	"masked_gae", "bi_level_gae", "trajectory_bi_level_gae", "turn_level_gae",
	"grpo", "rloo", "maxrl_skyrl", "gigpo", "graphgpo", "optimal_token_baseline", "tir_optimal_token_baseline",
	"reinforce_plus_plus", "reinforce_plus_plus_slime", "rae",
}

// half is the estimator of the policy whose turns are measured: its critic has learned.
const half = "masked_gae"

const (
	worldName = "few_lakes"
	lakes     = 12 // few, since a table learns nothing about states that it has not seen
)

// fewLakes is FrozenLake on a few maps.
type fewLakes struct{ *frozenlake.Env }

func newFewLakes(options map[string]any) (env.Env, error) {
	e, err := frozenlake.FromConfig(options)
	if err != nil {
		return nil, err
	}
	return fewLakes{e.(*frozenlake.Env)}, nil
}

// Reset implements env.Env.
func (e fewLakes) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	return e.Env.Reset(ctx, seed%lakes)
}

// study trains and measures. Results are stored in files.
type study struct {
	options
	envs *env.Registry
	say  io.Writer
}

// results are those of all runs: the mean success of the episodes of each training step, by estimator and seed, and
// how claims agree with measured advantages, by seed.
type results struct {
	success map[string][][]float64
	credit  []*credit.Table
}

func newStudy(o options, say io.Writer) (*study, error) {
	envs := new(env.Registry)
	return &study{options: o, envs: envs, say: say}, envs.Register(worldName, newFewLakes)
}

// run returns all results.
func (s *study) run(ctx context.Context) (*results, error) {
	r := &results{success: map[string][][]float64{}}
	for seed := range uint64(s.seeds) {
		for _, name := range compared {
			begin := time.Now()
			success, err := stored(s, name, name, seed, func(c config.Config) ([]float64, error) {
				_, success, err := s.train(ctx, c, c.Trainer.Steps)
				return success, err
			})
			if err != nil {
				return nil, fmt.Errorf("%s, seed %d: %w", name, seed, err)
			}
			r.success[name] = append(r.success[name], success)
			fmt.Fprintf(s.say, "%-26s seed %d: success %.2f, %.1f s\n",
				name, seed, success[len(success)-1], time.Since(begin).Seconds())
		}
		table, err := stored(s, fmt.Sprintf("credit-%d", s.measured), half, seed,
			func(c config.Config) (*credit.Table, error) { return s.measure(ctx, c) })
		if err != nil {
			return nil, fmt.Errorf("credit, seed %d: %w", seed, err)
		}
		r.credit = append(r.credit, table)
	}
	return r, nil
}

// stored reads the result of a run with an estimator from the file of a name, or makes it if there is none.
func stored[T any](
	s *study, name, estimator string, seed uint64, make func(config.Config) (T, error),
) (r T, err error) {
	c, err := configure(estimator, seed, s.steps)
	if err != nil {
		return r, err
	}
	settings, err := c.YAML()
	if err != nil {
		return r, err
	}
	file := filepath.Join(s.out, fmt.Sprintf("seed%d", seed), name+".json")
	var known struct {
		Settings string
		Result   T
	}
	raw, err := regular.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if known.Result, err = make(c); err != nil {
			return r, err
		}
		known.Settings = string(settings)
		return known.Result, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), durable.WriteJSON(file, known))
	}
	if err == nil {
		err = json.Unmarshal(raw, &known)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", file, err)
	}
	old, removed, err := config.ReadStored(file, []byte(known.Settings))
	if err != nil {
		return r, err
	}
	if lines := append(config.Differences(&old, &c), removed...); len(lines) > 0 {
		return r, fmt.Errorf("%s has the result of another configuration: choose another -out, or remove it:\n  %s",
			file, strings.Join(lines, "\n  "))
	}
	return known.Result, nil
}

// configure returns the configuration of a run. All have the same number of episodes.
func configure(estimator string, seed uint64, steps int) (config.Config, error) {
	return config.Load("",
		"env="+worldName, "env.config={render_mode: text, prompt_format: answer, format_reward: 0, size: 6}",
		"algorithm.adv_estimator="+estimator, fmt.Sprint("run.seed=", seed),
		fmt.Sprint("trainer.total_training_steps=", steps),
		"data.train_batch_size=16", "rollout_manager.n_trajectory=8", "rollout_manager.max_turns=20",
		"trainer.val_before_train=false", "trainer.test_freq=-1",
		"actor_rollout_ref.actor.ppo_mini_batch_size=128", "actor_rollout_ref.actor.ppo_epochs=4",
		"actor_rollout_ref.actor.optim.lr=0.2", "actor_rollout_ref.actor.entropy_coeff=0",
		"critic.optim.lr=10", "critic.cliprange_value=0",
	)
}

// train does so many training steps, and returns the success of each one's episodes.
func (s *study) train(ctx context.Context, c config.Config, steps int) (*train.Trainer, []float64, error) {
	t, out := &train.Trainer{Config: c, Learner: newTable(), Envs: s.envs}, []float64{}
	for step := range steps {
		played, err := t.Collect(ctx, step+1)
		if err != nil {
			return nil, nil, err
		}
		n := rollout.Count(played.Episodes)
		out = append(out, float64(n.Success)/float64(n.Episodes))
		if _, err := t.Step(ctx, played); err != nil {
			return nil, nil, err
		}
	}
	return t, out, nil
}

// measure measures what the turns of a step's episodes were worth after half of the training, and compares.
func (s *study) measure(ctx context.Context, c config.Config) (*credit.Table, error) {
	middle := c.Trainer.Steps / 2
	t, _, err := s.train(ctx, c, middle)
	if err != nil {
		return nil, err
	}
	played, err := t.Collect(ctx, middle+1)
	if err != nil {
		return nil, err
	}
	scores, err := t.Score(ctx, played)
	if err != nil {
		return nil, err
	}
	player, err := t.Player(ctx)
	if err != nil {
		return nil, err
	}
	m := credit.Measurement{
		Options: credit.DefaultOptions(), Run: filepath.Join(s.out, fmt.Sprintf("seed%d", c.Run.Seed)),
		Checkpoint: middle, Played: middle + 1, Identity: half,
		Step: &credit.Step{Config: &c, Episodes: played.Episodes, Scores: scores}, Player: player,
	}
	m.Episodes, m.Alternatives, m.Seed, m.Params = s.measured, 0, c.Run.Seed, c.Algorithm.Params
	m.Estimators = compared
	return m.Measure(ctx)
}
