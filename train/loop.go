package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vagen/train/track"
)

// Run trains for the configured number of steps. It ends early, with the
// context's error, when the context does; everything reported until then has
// reached the sinks. With trainer.save_on_interrupt the steps that are done are
// saved before; if that fails, its error is returned in place of the context's.
func (t *Trainer) Run(ctx context.Context) error {
	if err := t.prepare(ctx); err != nil {
		return err
	}
	if t.Config.Trainer.SaveFreq < 0 && t.saves() {
		t.Log.Warn("nothing of this run is saved", "trainer.save_freq", t.Config.Trainer.SaveFreq)
	}
	err := t.loop(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = t.interrupted(ctx, err)
	}
	if late := t.waitForCheckpoint(); late != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return late // that a checkpoint was lost must not look like an interruption alone
		}
		return errors.Join(err, late)
	}
	return err
}

func (t *Trainer) loop(ctx context.Context) error {
	c := &t.Config.Trainer
	switch {
	case t.from.Interrupted:
		if err := t.follow(ctx, t.done); err != nil {
			return err
		}
	case t.done > 0:
		if err := t.emit(track.Event{Kind: track.KindSave, Step: t.done, Total: c.Steps}); err != nil {
			return err
		}
	case c.ValBefore:
		if err := t.Validate(ctx, 0); err != nil {
			return err
		}
	}
	for t.done < c.Steps && !t.exhausted() {
		step := t.done + 1
		if err := t.step(ctx, step); err != nil {
			return err
		}
		switch back, err := t.inspect(ctx, step); {
		case err != nil:
			return err
		case back:
			continue
		}
		if err := t.finish(step); err != nil {
			return err
		}
		if err := t.follow(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// finish takes down what a run that is stopped from now on goes on with.
func (t *Trainer) finish(step int) error {
	t.done = step
	err := t.note()
	t.left = t.now
	return err
}

// note takes down the state of this moment.
func (t *Trainer) note() error {
	s, err := t.state()
	if err == nil {
		t.now = &s
	}
	return err
}

// follow does what is due after a step.
func (t *Trainer) follow(ctx context.Context, step int) error {
	c := &t.Config.Trainer
	if c.TestFreq > 0 && (step%c.TestFreq == 0 || step == c.Steps) {
		if err := t.Validate(ctx, step); err != nil {
			return err
		}
		if err := t.note(); err != nil {
			return err
		}
	}
	if t.saves() && c.SaveFreq >= 0 && (step == c.Steps || t.exhausted() || c.SaveFreq > 0 && step%c.SaveFreq == 0) {
		return t.save(ctx, step)
	}
	return nil
}

func (t *Trainer) saves() bool { return t.Save != nil || t.Begin != nil }

// save writes a checkpoint, or begins to once the one before is written.
func (t *Trainer) save(ctx context.Context, step int) error {
	if err := t.waitForCheckpoint(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	done := track.Event{Kind: track.KindSave, Step: step, Total: t.Config.Trainer.Steps}
	if t.Begin == nil {
		if err := t.Save(ctx, step); err != nil {
			return err
		}
		t.saved = step
		return t.emit(done)
	}
	begin := time.Now()
	p, err := t.Begin(ctx, step)
	if err != nil {
		return err
	}
	t.Log.Debug("checkpoint begun", "step", step, "waited", time.Since(begin).Seconds())
	if p == nil {
		t.saved = step
		return t.emit(done)
	}
	t.saving, t.behind = p, done
	return nil
}

// waitForCheckpoint waits for the checkpoint that is being written and tells of it, and of
// what happened since.
func (t *Trainer) waitForCheckpoint() error {
	if t.saving == nil {
		return nil
	}
	err := t.saving.Wait()
	told := t.held
	if err == nil {
		t.saved = t.behind.Step
		told = append([]track.Event{t.behind}, told...)
	}
	t.saving, t.held = nil, nil
	for _, e := range told {
		err = errors.Join(err, t.tell(e))
	}
	return err
}

// emit tells the sinks of an event. What happens while a checkpoint is being
// written is told after it, so that the order of events does not depend on disks.
func (t *Trainer) emit(e track.Event) error {
	if t.saving != nil {
		t.held = append(t.held, e)
		if !t.saving.finished() {
			return nil
		}
		return t.waitForCheckpoint()
	}
	return t.tell(e)
}

func (t *Trainer) tell(e track.Event) error {
	for _, s := range t.Sinks {
		if err := s.Event(e); err != nil {
			return err
		}
	}
	return nil
}

// updating is the context of a step's optimiser steps. Where interrupted runs are
// saved these are not cut short: between them the weights belong to no step.
func (t *Trainer) updating(ctx context.Context) context.Context {
	if t.savesInterrupted() {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (t *Trainer) savesInterrupted() bool {
	c := &t.Config.Trainer
	return c.OnInterrupt && c.SaveFreq >= 0 && t.saves()
}

// interrupted saves the steps that are done. It returns why the run stopped, or why
// they could not be saved.
func (t *Trainer) interrupted(ctx context.Context, why error) error {
	if !t.savesInterrupted() || t.mid || t.left == nil || t.left.Step == 0 {
		return why
	}
	if err := t.waitForCheckpoint(); err != nil {
		return err
	}
	if t.saved == t.left.Step {
		return why
	}
	s := *t.left
	s.Interrupted = true
	t.now = &s
	keep := context.WithoutCancel(ctx)
	err := error(nil)
	if t.Begin != nil {
		var p *Pending
		if p, err = t.Begin(keep, t.left.Step); err == nil {
			err = p.Wait()
		}
	} else {
		err = t.Save(keep, t.left.Step)
	}
	if err != nil {
		return fmt.Errorf("train: interrupted, and step %d could not be saved: %w", t.left.Step, err)
	}
	t.Log.Info("saved on interruption", "step", t.left.Step)
	return why
}
