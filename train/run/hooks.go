package run

import (
	"context"
	"errors"

	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train"
)

// checkpointer saves the learner of a run in the run's folder.
type checkpointer struct{ run *Run }

// rollbacker is a checkpointer of a learner that can be restored.
type rollbacker struct {
	checkpointer
	learner policy.Restorer
}

// observer writes the episodes of a run to the folders of the configuration.
type observer struct{ run *Run }

var (
	_ train.Checkpointer = checkpointer{}
	_ train.Rollbacker   = rollbacker{}
	_ train.Observer     = observer{}
)

// checkpointer saves the learner, and rolls it back if it can be restored.
func (r *Run) checkpointer() train.Checkpointer {
	c := checkpointer{r}
	if l, ok := policy.As[policy.Restorer](r.Learner); ok {
		return rollbacker{c, l}
	}
	return c
}

// Begin writes the episodes that wait to be written first: a run that resumes from the
// checkpoint does not play them again.
func (c checkpointer) Begin(ctx context.Context, s train.State) (*train.Pending, error) {
	if err := c.run.archives.each((*archive).flush); err != nil {
		return nil, err
	}
	return c.run.begin(ctx, s)
}

// KeepBest saves the policy in best_actor.
func (c checkpointer) KeepBest(ctx context.Context, b train.Best) error {
	return c.run.Folder.SaveBest(ctx, b, policyOf(c.run.Learner))
}

// Rollback restores the newest checkpoint: that of trainer.resume_from_path if the run has
// not saved one yet. It removes the episodes of later steps.
func (c rollbacker) Rollback(ctx context.Context) (train.State, error) {
	p, err := c.run.points.Latest(ctx)
	if from := c.run.from; from != nil && errors.Is(err, ErrNoCheckpoint) && !errors.Is(err, ErrTorn) {
		p, err = OpenCheckpoint(ctx, from.Path)
	}
	if err != nil {
		return train.State{}, err
	}
	if err := c.learner.Restore(ctx, p.Path); err != nil {
		return train.State{}, err
	}
	return p.State, c.run.archives.each(func(a *archive) error { return a.rewind(p.State.Step) })
}

// Played writes the episodes of a step.
func (o observer) Played(step int, ts []*rollout.Trajectory) error {
	if a := o.run.archives.of[rollouts]; a != nil {
		return a.add(step, ts)
	}
	return nil
}

// Estimated writes the scores of a step beside its episodes.
func (o observer) Estimated(step int, scores []store.Scores) error {
	if a := o.run.archives.of[rollouts]; a != nil {
		return a.addScores(step, scores)
	}
	return nil
}

// Validated writes the episodes of a validation and the curve.
func (o observer) Validated(step int, ts []*rollout.Trajectory) error {
	r := o.run
	if a := r.archives.of[validations]; a != nil {
		if err := a.add(step, ts); err != nil {
			return err
		}
	}
	shown, err := r.Config.Trainer.Shown(ts)
	if err != nil {
		return err
	}
	if err := r.Folder.SaveEpisodes(step, shown, len(shown)); err != nil {
		return err
	}
	return r.draw()
}
