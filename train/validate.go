package train

import (
	"context"
	"fmt"
	"math"

	"vagen/internal/rng"
	"vagen/policy"
	"vagen/reward/judge/client"
	"vagen/rollout"
	"vagen/rollout/evaluate"
	"vagen/train/track"
)

// Validate plays the validation levels with the current policy and sends the result as an
// event of kind KindValidate. The levels and the seeds of sampling are the same at every step.
func (t *Trainer) Validate(ctx context.Context, step int) error {
	if err := t.prepared(ctx); err != nil {
		return err
	}
	if t.supervises() {
		return t.validateSupervised(ctx, step)
	}
	c := &t.Config
	clock := newStopwatch()
	judging, judged := client.WithMeter(ctx)
	ts, err := t.playValidation(judging, validationSampling(c), step)
	if err != nil {
		return err
	}
	m := track.Metrics{}
	judged.Usage().Write(m, "val/judge/")
	describeValidation(m, ts, max(1, c.Agent.Rollout.Val.Episodes))
	clock.lap("validate")
	clock.write(m)
	m.AddAliases(track.KindValidate)
	return t.validated(ctx, step, m, ts)
}

// validated publishes the metrics of a validation and acts on them. Only the supervised stage has no episodes.
func (t *Trainer) validated(ctx context.Context, step int, m track.Metrics, ts []*rollout.Trajectory) error {
	c := &t.Config.Trainer
	err := t.publisher.publish(track.Event{Kind: track.KindValidate, Step: step, Total: c.Steps, Metrics: m})
	if err == nil && t.Observer != nil && !t.supervises() {
		err = t.Observer.Validated(step, ts)
	}
	if err != nil {
		return err
	}
	t.stability.recordValidation(step, m)
	return t.progress.compareBest(ctx, c, t.Checkpointer, step, m, t.Log)
}

// Task returns the validation as a task of package rollout/evaluate, with the same episodes
// and sampling, so that its results are the same. Without a Learner
// data.filter_overlong_prompts is not applied.
func (t *Trainer) Task(tag string) (evaluate.Task, error) {
	if t.supervises() {
		return evaluate.Task{}, errNoEpisodes
	}
	ctx, prepare := context.Background(), t.prepared
	if t.Learner == nil {
		prepare = t.prepareEpisodes
	}
	if err := prepare(ctx); err != nil {
		return evaluate.Task{}, err
	}
	return t.task(tag, validationSampling(&t.Config)), nil
}

// Player plays episodes with the learner as training does.
func (t *Trainer) Player(ctx context.Context) (*rollout.Player, error) {
	if t.supervises() {
		return nil, errNoEpisodes
	}
	if err := t.prepared(ctx); err != nil {
		return nil, err
	}
	return t.collector.player(t.Learner, sampling(&t.Config)), nil
}

// task plays the validation levels, sampled in some way.
func (t *Trainer) task(tag string, s policy.Sampling) evaluate.Task {
	c := &t.Config
	return evaluate.Task{
		Tag: tag, Player: *t.collector.player(t.Learner, s), Episodes: t.Levels.Validation(), AtOnce: atOnce(c),
		Seed: rng.Derive(c.Run.Seed, rng.Validate), Judge: t.Levels.State.Identity(),
	}
}

// playValidation plays the validation levels.
func (t *Trainer) playValidation(ctx context.Context, s policy.Sampling, step int) ([]*rollout.Trajectory, error) {
	if t.supervises() {
		return nil, errNoEpisodes
	}
	k := t.task("", s)
	k.Player.Tag = fmt.Sprintf("validation after step %d", step)
	var out []*rollout.Trajectory
	err := evaluate.PlayBatches(ctx, &k.Player, k.Episodes, k.AtOnce, k.Seed, nil, func(ts []*rollout.Trajectory) error {
		out = append(out, ts...)
		return nil
	})
	return out, err
}

// Success is a success rate with its standard error.
type Success struct {
	Rate     float64
	Error    float64 // standard error
	Episodes int     // usable ones, of which Rate is
	Unusable int     // left out
}

// String shows rate and standard error, and the number of episodes if some are left out.
func (s Success) String() string {
	text := fmt.Sprintf("%.2f ± %.2f", s.Rate, s.Error)
	if s.Unusable > 0 {
		text += fmt.Sprintf(" of %d, %d unusable", s.Episodes, s.Unusable)
	}
	return text
}

// Evaluate plays the validation levels once and returns the success rate of usable episodes.
func (t *Trainer) Evaluate(ctx context.Context, s policy.Sampling) (Success, []*rollout.Trajectory, error) {
	if err := t.prepared(ctx); err != nil {
		return Success{}, nil, err
	}
	ts, err := t.playValidation(ctx, s, t.progress.Step)
	if err != nil {
		return Success{}, nil, err
	}
	c := rollout.Count(ts)
	if c.Usable == 0 {
		return Success{}, ts, noRows(ts, "validation episodes")
	}
	p := float64(c.Success) / float64(c.Usable)
	out := Success{Rate: p, Error: math.Sqrt(p * (1 - p) / float64(c.Usable)), Episodes: c.Usable}
	out.Unusable = c.Episodes - c.Usable
	return out, ts, nil
}
