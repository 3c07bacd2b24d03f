package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/internal/rng"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/run"
)

// start returns the folder with a seed's warm start, which it creates if it does not
// exist. It opens the model if it is not open.
func (s *study) start(ctx context.Context, seed uint64) (string, error) {
	// The warm start is that of vagen_base, whichever preset needs it first.
	c, err := s.configure(base, seed, s.backend)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(s.out, fmt.Sprintf("seed%d", seed), "start")
	if s.model == nil {
		if s.model, err = s.open(ctx, c); err != nil {
			return dir, err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "actor")); err == nil {
		return dir, s.sameStart(dir)
	}
	if err := s.fresh(ctx, c); err != nil {
		return dir, err
	}
	if err := s.teach(ctx, c); err != nil {
		return dir, err
	}
	tmp := dir + ".tmp"
	if err := errors.Join(os.RemoveAll(tmp), os.RemoveAll(dir)); err != nil {
		return dir, err
	}
	if err := s.model.Save(ctx, tmp); err != nil {
		return dir, err
	}
	if err := os.WriteFile(filepath.Join(tmp, startName), []byte(s.startLine()), 0o644); err != nil {
		return dir, err
	}
	// The optimiser state of the warm start is dropped: reinforcement learning starts with
	// a new one.
	return dir, errors.Join(os.RemoveAll(filepath.Join(tmp, "optimizer")), os.Rename(tmp, dir))
}

// open creates a model and opens it with a value head, which GRPO does not train.
func (s *study) open(ctx context.Context, c config.Config) (*vlm.Model, error) {
	dir, err := s.create(c.Run.Seed)
	if err != nil {
		return nil, err
	}
	return vlm.Open(ctx, dir, run.ModelOptions(&c, s.log))
}

// create writes a new model with the weights of a seed.
func (s *study) create(seed uint64) (string, error) {
	dir := filepath.Join(s.out, fmt.Sprintf("seed%d", seed), "new")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, vlm.Create(dir, s.shape, s.words(), seed)
}

// fresh gives the open model the new weights of a seed and a value head of zeros. Compiled
// programs belong to an open model. To keep them, the weights are loaded from a checkpoint of
// another model.
func (s *study) fresh(ctx context.Context, c config.Config) error {
	other, err := s.open(ctx, c)
	if err != nil {
		return err
	}
	saved := filepath.Join(s.out, fmt.Sprintf("seed%d", c.Run.Seed), "zero")
	if err := os.RemoveAll(saved); err != nil {
		return errors.Join(err, other.Close())
	}
	if err := errors.Join(other.Save(ctx, saved), other.Close()); err != nil {
		return err
	}
	return s.model.Restore(ctx, saved)
}

// teach imitates the scripted players of the lessons, which use the maps before those of training.
func (s *study) teach(ctx context.Context, c config.Config) error {
	next := c.Env.Seed
	for n, l := range s.lessons {
		next -= int64(l.episodes)
		l.Seed = rng.Derive(c.Run.Seed, rng.Shuffle, uint64(n))
		if err := s.imitate(ctx, s.demonstrations(c, l, next, uint64(n)), l); err != nil {
			return err
		}
	}
	return s.model.Tie(ctx)
}

// demonstrations plays the scripted episodes of a lesson, on maps with consecutive seeds.
func (s *study) demonstrations(c config.Config, l lesson, first int64, n uint64) train.Transcripts {
	player := s.player(l)
	return func(ctx context.Context, members []int) ([]*rollout.Trajectory, error) {
		episodes := make([]rollout.Episode, len(members))
		for k, i := range members {
			episodes[k] = rollout.Episode{Env: c.Env.Name, Config: c.Env.Config, Seed: first + int64(i), Group: i,
				MaxTurns: l.turns}
		}
		return rollout.Demonstrate(ctx, s.model, s.envs, episodes,
			func(e env.Env, ep rollout.Episode, turn int) (string, error) {
				t, ok := e.(*toldLake)
				if !ok {
					return "", fmt.Errorf("environment is a %T, must be %s", e, worldName)
				}
				return player(rollout.ScriptRand(c.Run.Seed, n, uint64(ep.Group), uint64(turn)), t)
			})
	}
}

// player returns the player that a lesson imitates. Unless its moves follow its statements, these
// are true.
func (s *study) player(l lesson) func(r *rand.Rand, t *toldLake) (string, error) {
	if s.follows {
		return slippingPlayer(l.slips, s.noise)
	}
	walker := frozenlake.Noisy(s.noise, frozenlake.ShortestPath)
	return func(r *rand.Rand, t *toldLake) (string, error) { return t.Script(r, walker, 1), nil }
}

// imitate trains on the transcripts of a lesson. Those of whole episodes train the value head,
// too: its target is the sum of the rewards from a token on. Without it every critic would begin
// with knowing nothing, and training it on its own would change what the policy says, since both
// share a trunk.
func (s *study) imitate(ctx context.Context, recorded train.Transcripts, l lesson) error {
	if !l.values {
		return train.Imitate(ctx, s.model, l.episodes, recorded, l.Imitation)
	}
	// REINFORCE with an advantage of 1 is imitation, and unlike it has a value loss beside it.
	objective := policy.Objective{Temperature: 1, Policy: loss.Reinforce{}, ValueCoef: valueCoef}
	order := rng.New(l.Seed, rng.Shuffle).Perm(l.episodes)
	steps := (l.episodes + l.Batch - 1) / l.Batch
	for k, members := range slices.Collect(slices.Chunk(order, l.Batch)) {
		ts, err := recorded(ctx, members)
		if err != nil {
			return err
		}
		b, err := valued(ts)
		if err != nil {
			return err
		}
		opt := l.Optimizer
		opt.Rate *= min(1, float64(k+1)/float64(l.Warmup), 2*float64(steps-k)/float64(steps))
		if _, err := s.model.Update(ctx, b, objective, opt); err != nil {
			return err
		}
	}
	return nil
}

// valueCoef is the weight of the value loss, in the warm start and in training.
const valueCoef = 0.5

// valued returns a batch of transcripts, in which each response token has the same weight.
func valued(ts []*rollout.Trajectory) (*policy.Batch, error) {
	b := &policy.Batch{Rows: policy.Rows{Offsets: []int{0}}}
	for _, t := range ts {
		if len(t.Rows) != 1 {
			return nil, fmt.Errorf("a transcript has %d rows, must have 1", len(t.Rows))
		}
		row := &t.Rows[0]
		var of []float64
		for _, turn := range t.Turns {
			of = append(of, turn.Reward.Sum())
		}
		rewards, err := row.PlaceTurnRewards(nil, of, 0)
		if err != nil {
			return nil, err
		}
		returns, sum := make([]float32, len(rewards)), float32(0)
		for k := len(rewards) - 1; k >= 0; k-- {
			sum += rewards[k]
			returns[k] = sum
		}
		for _, r := range row.Response(nil) {
			w := float32(0)
			if r {
				w = 1
			}
			b.Weight = append(b.Weight, w)
		}
		b.Tokens, b.Images, b.Returns = append(b.Tokens, row.Tokens()...), append(b.Images, row.Images),
			append(b.Returns, returns...)
		b.Offsets = append(b.Offsets, len(b.Tokens))
	}
	b.Advantages = slices.Clone(b.Weight)
	total := float32(0)
	for _, w := range b.Weight {
		total += w
	}
	for k := range b.Weight {
		b.Weight[k] /= total
	}
	b.ValueWeight, b.OldLogProbs, b.OldValues = b.Weight, make([]float32, len(b.Tokens)), make([]float32, len(b.Tokens))
	return b, nil
}
