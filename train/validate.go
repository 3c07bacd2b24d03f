package train

import (
	"context"
	"fmt"
	"math"

	"vagen/internal/rng"
	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/evaluate"
	"vagen/train/track"
)

// Validate plays the validation levels with the policy as it is and reports the
// result as an event of kind KindValidate. The levels, and the randomness of
// sampling, are the same at every step.
func (t *Trainer) Validate(ctx context.Context, step int) error {
	if err := t.prepared(ctx); err != nil {
		return err
	}
	c := &t.Config
	watch := newClock()
	ts, err := t.evaluate(ctx, t.validating())
	if err != nil {
		return err
	}
	m := track.Metrics{}
	validated(m, ts, max(1, c.Agent.Rollout.Val.Episodes))
	watch.lap("validate")
	watch.write(m)
	m["timing_s/testing"] = m["time/validate"]
	if err := t.emit(track.Event{Kind: track.KindValidate, Step: step, Total: c.Trainer.Steps, Metrics: m}); err != nil {
		return err
	}
	if t.Watch != nil {
		if err := t.Watch(step, ts); err != nil {
			return err
		}
	}
	t.grade(step, m)
	return t.compareBest(ctx, step, m)
}

// Task is what a validation plays, as an evaluation of its own: the same episodes,
// sampled in the same way, give the same results. A Trainer that has no Learner yet
// tells it, too, but for what takes one: data.filter_overlong_prompts has left
// nothing out.
func (t *Trainer) Task(tag string) (evaluate.Task, error) {
	ctx, get := context.Background(), t.prepared
	if t.Learner == nil {
		get = t.outline
	}
	if err := get(ctx); err != nil {
		return evaluate.Task{}, err
	}
	return t.task(tag, t.validating()), nil
}

// validating is how responses are sampled at validation.
func (t *Trainer) validating() policy.Sampling {
	v := &t.Config.Agent.Rollout.Val
	s := t.greedy()
	s.Temperature, s.TopP, s.TopK = v.Temperature, v.TopP, max(0, v.TopK)
	return s
}

func (t *Trainer) task(tag string, s policy.Sampling) evaluate.Task {
	c := &t.Config
	return evaluate.Task{
		Tag: tag, Player: *t.player(t.Learner, s), Episodes: t.Levels.Validation(), AtOnce: atOnce(c), Seed: rng.Derive(c.Run.Seed, rng.Validate),
	}
}

// evaluate plays the validation levels.
func (t *Trainer) evaluate(ctx context.Context, s policy.Sampling) ([]*rollout.Trajectory, error) {
	k := t.task("", s)
	var out []*rollout.Trajectory
	err := evaluate.PlayBatches(ctx, &k.Player, k.Episodes, k.AtOnce, k.Seed, nil, func(ts []*rollout.Trajectory) error {
		out = append(out, ts...)
		return nil
	})
	return out, err
}

// Success is a share with its uncertainty.
type Success struct {
	Rate     float64
	Error    float64 // standard error
	Episodes int
}

// String shows rate and standard error.
func (s Success) String() string { return fmt.Sprintf("%.2f ± %.2f", s.Rate, s.Error) }

// Evaluate plays the validation levels once and returns the share of successes
// among usable episodes.
func (t *Trainer) Evaluate(ctx context.Context, s policy.Sampling) (Success, []*rollout.Trajectory, error) {
	if err := t.prepared(ctx); err != nil {
		return Success{}, nil, err
	}
	ts, err := t.evaluate(ctx, s)
	if err != nil {
		return Success{}, nil, err
	}
	c := rollout.Count(ts)
	if c.Usable == 0 {
		return Success{}, ts, fmt.Errorf("train: %w: none of %d validation episodes can be used", ErrNoRows, c.Episodes)
	}
	p := float64(c.Success) / float64(c.Usable)
	return Success{Rate: p, Error: math.Sqrt(p * (1 - p) / float64(c.Usable)), Episodes: c.Usable}, ts, nil
}
