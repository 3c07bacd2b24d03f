package train

import (
	"context"
	"errors"
	"fmt"

	"vagen/train/track"
)

// Run trains until the configured number of steps is done: for each step it calls Collect and
// Step, sends the step's event to the sinks, and then validates and saves if that is due. It
// returns an error, or rolls back, if stability.spike or stability.alarms say so. If the context ends, it returns early with
// the context's error, after all events so far were sent to the sinks. With
// trainer.save_on_interrupt the finished steps are saved first; if this fails, its error is
// returned instead.
func (t *Trainer) Run(ctx context.Context) error {
	if err := t.prepare(ctx, true); err != nil {
		return err
	}
	if err := t.progress.checkWeights(); err != nil {
		return err
	}
	if t.Config.Trainer.SaveFreq < 0 && t.Checkpointer != nil {
		t.Log.Warn("the run is not saved", "trainer.save_freq", t.Config.Trainer.SaveFreq)
	}
	defer t.progress.stopPrefetches(nil)
	err := t.loop(ctx)
	t.progress.stopPrefetches(t.progress.inSnapshots)
	if interrupted(ctx, err) {
		err = t.saveInterrupted(ctx, err)
	}
	if saveErr := t.publisher.waitForCheckpoint(); saveErr != nil {
		if interrupted(ctx, err) {
			return saveErr // must not be mistaken for an interruption that was saved
		}
		return errors.Join(err, saveErr)
	}
	return err
}

// interrupted reports whether an error is that of a context that has ended, or the cause that it ended with.
func interrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// loop does the remaining steps, with the validations and checkpoints between them.
func (t *Trainer) loop(ctx context.Context) error {
	c, p := &t.Config.Trainer, &t.progress
	switch {
	case p.begun: // by Step
	case p.Interrupted:
		if err := t.afterStep(ctx, p.Step); err != nil {
			return err
		}
	case p.Step > 0:
		if err := t.publisher.publish(track.Event{Kind: track.KindSave, Step: p.Step, Total: c.Steps}); err != nil {
			return err
		}
	case c.ValBefore:
		if err := t.Validate(ctx, 0); err != nil {
			return err
		}
	}
	for p.Step < c.Steps && !t.stability.stopEarly() {
		step := p.Step + 1
		collected, err := t.Collect(ctx, step)
		if err != nil {
			return err
		}
		m, err := t.Step(ctx, collected)
		if err != nil {
			return err
		}
		if err := t.publisher.publish(track.Event{Kind: track.KindStep, Step: step, Total: c.Steps, Metrics: m}); err != nil {
			return err
		}
		if err := t.stability.checkAlarms(step, m, t.publisher.saved); err != nil {
			return err
		}
		switch rollBack, err := t.stability.checkSpike(step, m, t.publisher.newest); {
		case err != nil:
			return err
		case rollBack:
			if err := t.rollBack(ctx, step); err != nil {
				return err
			}
			continue
		}
		if err := p.finish(&t.stability.state); err != nil { // with the values that spikes are compared with
			return err
		}
		if err := t.afterStep(ctx, step); err != nil {
			return err
		}
	}
	_, err := t.State() // waits for its episodes if the run stopped early
	return err
}

// afterStep does the validation and the checkpoint that are due after a step.
func (t *Trainer) afterStep(ctx context.Context, step int) error {
	c := &t.Config.Trainer
	if c.TestFreq > 0 && (step%c.TestFreq == 0 || step == c.Steps) {
		if err := t.Validate(ctx, step); err != nil {
			return err
		}
		if err := t.progress.snapshot(&t.stability.state); err != nil {
			return err
		}
	}
	if t.Checkpointer == nil || c.SaveFreq < 0 {
		return nil
	}
	if step == c.Steps || t.stability.stopEarly() || c.SaveFreq > 0 && step%c.SaveFreq == 0 {
		s, err := t.State()
		if err != nil {
			return err
		}
		return t.publisher.save(ctx, s, c.Steps)
	}
	return nil
}

// updateContext returns the context of a step's optimiser steps. If interrupted runs are
// saved, it does not end, because the weights between optimiser steps belong to no step.
func (t *Trainer) updateContext(ctx context.Context) context.Context {
	if t.savesOnInterrupt() {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (t *Trainer) savesOnInterrupt() bool {
	c := &t.Config.Trainer
	return c.OnInterrupt && c.SaveFreq >= 0 && t.Checkpointer != nil
}

// saveInterrupted saves the finished steps of a run that stopped with an error. It
// returns that error, or the one of saving.
func (t *Trainer) saveInterrupted(ctx context.Context, stopped error) error {
	p := &t.progress
	if !t.savesOnInterrupt() || p.updating || p.finished == nil || p.finished.Step == 0 {
		return stopped
	}
	switch saved, err := t.publisher.newest(); {
	case err != nil:
		return err
	case saved == p.finished.Step:
		return stopped
	}
	s, err := p.withPrefetched(*p.finished)
	if err != nil {
		return fmt.Errorf("train: interrupted, and step %d cannot be saved: %w", s.Step, err)
	}
	s.Interrupted = true
	p.current = &s
	pending, err := t.Checkpointer.Begin(context.WithoutCancel(ctx), s)
	if err == nil {
		err = pending.Wait()
	}
	if err != nil {
		return fmt.Errorf("train: interrupted, and saving step %d failed: %w", s.Step, err)
	}
	t.Log.Info("saved on interruption", "step", s.Step)
	return stopped
}
