package train

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"vagen/train/track"
)

// publisher sends events to the sinks and starts checkpoints. Events during the writing of a
// checkpoint are sent after the checkpoint's event, so that the order of events does not
// depend on the speed of the disk.
type publisher struct {
	sinks        []track.Sink
	checkpointer Checkpointer // nil saves nothing
	log          *slog.Logger

	saved     int           // step of the newest checkpoint
	writing   *Pending      // the checkpoint that is being written; nil if none is
	saveEvent track.Event   // sent when writing has ended
	delayed   []track.Event // events since writing started
}

// publish sends an event, or delays it until the checkpoint before it is written.
func (p *publisher) publish(e track.Event) error {
	if p.writing == nil {
		return p.send(e)
	}
	p.delayed = append(p.delayed, e)
	if !p.writing.finished() {
		return nil
	}
	return p.waitForCheckpoint()
}

// save waits for the checkpoint before, and writes a checkpoint or starts to write it.
func (p *publisher) save(ctx context.Context, s State, total int) error {
	if err := p.waitForCheckpoint(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	began := time.Now()
	writing, err := p.checkpointer.Begin(ctx, s)
	if err != nil {
		return err
	}
	p.log.Debug("checkpoint started", "step", s.Step, "waited", time.Since(began).Seconds())
	e := track.Event{Kind: track.KindSave, Step: s.Step, Total: total}
	if writing == nil {
		p.saved = s.Step
		return p.publish(e)
	}
	p.writing, p.saveEvent = writing, e
	return nil
}

// waitForCheckpoint waits until the current checkpoint is written, and sends its event and
// the delayed ones.
func (p *publisher) waitForCheckpoint() error {
	if p.writing == nil {
		return nil
	}
	err := p.writing.Wait()
	events := p.delayed
	if err == nil {
		p.saved = p.saveEvent.Step
		events = append([]track.Event{p.saveEvent}, events...)
	}
	p.writing, p.delayed = nil, nil
	for _, e := range events {
		err = errors.Join(err, p.send(e))
	}
	return err
}

// newest waits until the current checkpoint is written and returns the step of the newest
// one; 0 for none.
func (p *publisher) newest() (int, error) {
	err := p.waitForCheckpoint()
	return p.saved, err
}

func (p *publisher) send(e track.Event) error {
	for _, s := range p.sinks {
		if err := s.Event(e); err != nil {
			return err
		}
	}
	return nil
}
