package queue

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"vagen/internal/pace"
	"vagen/internal/retry"
	"vagen/rollout"
	"vagen/rollout/store"
)

// A result waits for others to be sent with it, as long as they come within quietTime of each other,
// at most gatherTime. A message has a fixed cost, most of it for the columns of the file in it,
// which short episodes would pay each.
const (
	quietTime  = 50 * time.Millisecond
	gatherTime = 200 * time.Millisecond
)

// send sends the results until finished is closed. Results that come shortly after each other
// are sent together.
func (w *worker) send(ctx context.Context) {
	first, ok := <-w.finished
	for ok {
		var group []outcome
		group, first, ok = w.gather(first)
		w.deliver(ctx, group)
		if ok && first.held == nil {
			first, ok = <-w.finished
		}
	}
}

// gather returns the results to send together, beginning with one, and a result that cannot be sent
// with them, if there is one. ok is false when finished is closed.
func (w *worker) gather(first outcome) (group []outcome, next outcome, ok bool) {
	group = []outcome{first}
	if first.fault != "" {
		return group, outcome{}, true
	}
	late, idle := time.NewTimer(gatherTime), time.NewTimer(quietTime)
	defer late.Stop()
	defer idle.Stop()
	for len(group) < maxGrouped {
		select {
		case more, ok := <-w.finished:
			switch {
			case !ok:
				return group, outcome{}, false
			case more.of != first.of || more.fault != "":
				return group, more, true
			}
			group = append(group, more)
			idle.Reset(quietTime)
		case <-idle.C:
			return group, outcome{}, true
		case <-late.C:
			return group, outcome{}, true
		}
	}
	return group, outcome{}, true
}

// deliver sends results of a batch and acknowledges their tasks. While the server takes no
// results, it tries again, and keeps the tasks.
func (w *worker) deliver(ctx context.Context, group []outcome) {
	pauses := retry.Doubling(50*time.Millisecond, pace.Retry).Pauses(retry.Jitter(retry.Seed(w.id), 0))
	for try := 0; ; try++ {
		err := w.publish(ctx, group)
		switch {
		case err == nil:
			for _, o := range group {
				w.done(o.held)
				o.m.Ack()
			}
			return
		case ctx.Err() != nil, w.nc.IsClosed():
			for _, o := range group {
				w.giveBack(ctx, o.held)
			}
			return
		case w.over(ctx, group[0].task.Batch):
			for _, o := range group {
				w.done(o.held)
				o.m.Nak()
			}
			return
		}
		if try%20 == 0 {
			w.opts.log().Warn("the server takes no results, trying again", "results", len(group), "err", err)
			w.nc.Publish(w.names.troubleOf(group[0].task.Batch), []byte(shorten(err.Error()))) // may be lost
		}
		pauses.Wait(ctx)
	}
}

// over reports whether the trainer has finished a batch, so that its results are not needed.
func (w *worker) over(ctx context.Context, batch string) bool {
	_, err := w.js.ObjectStore(ctx, w.names.bucket(batch))
	return errors.Is(err, jetstream.ErrBucketNotFound)
}

// publish sends results of a batch: those of one failure, or any number of trajectories.
func (w *worker) publish(ctx context.Context, group []outcome) error {
	first := group[0]
	if first.fault != "" {
		m := w.message(group)
		m.Header.Set(faultHeader, first.fault)
		m.Data = []byte(shorten(first.err.Error()))
		return w.confirm(ctx, m)
	}
	ts := make([]*rollout.Trajectory, len(group))
	for i, o := range group {
		ts[i] = o.trajectory
	}
	reports, err := writeReports(group)
	if err != nil {
		return err
	}
	most := w.most() - int64(len(reports))
	raw, err := store.Encode(0, ts, func(name string, png func() ([]byte, error)) error {
		return first.of.keep(ctx, name, png)
	})
	switch {
	case err != nil && len(group) == 1 && !errors.Is(err, errBucket):
		group[0].fault, group[0].err = faultFailed, err // an episode that no file can hold
		return w.publish(ctx, group)
	case err != nil && !errors.Is(err, errBucket), err == nil && len(group) > 1 && int64(len(raw)) > most:
		half := len(group) / 2
		return errors.Join(w.publish(ctx, group[:half]), w.publish(ctx, group[half:]))
	case err != nil:
		return err
	}
	m := w.message(group)
	if reports != "" {
		m.Header.Set(reportHeader, reports)
	}
	if m.Data = raw; int64(len(raw)) > most {
		name := "result-" + objectName(first)
		if err := writeObject(ctx, first.of.bucket, name, raw); err != nil {
			return err
		}
		m.Header.Set(objectHeader, name)
		m.Data = nil
	}
	return w.confirm(ctx, m)
}

// most is the largest body of a message.
func (w *worker) most() int64 { return min(w.limit, w.nc.MaxPayload()-4096) }

// objectName returns a name for the object of a result, which is the same for each try.
func objectName(o outcome) string {
	return writePlaces([]place{{o.task.Number, o.task.Attempt}}) + "-" + o.task.Deal
}

func (w *worker) message(group []outcome) *nats.Msg {
	places := make([]place, len(group))
	for i, o := range group {
		places[i] = place{o.task.Number, o.task.Attempt}
	}
	m := nats.NewMsg(w.names.resultOf(group[0].task.Batch))
	m.Header.Set(tasksHeader, writePlaces(places))
	return m
}

// confirm sends a message and waits until the server has stored it.
func (w *worker) confirm(ctx context.Context, m *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, pace.Stored)
	defer cancel()
	_, err := w.js.PublishMsg(ctx, m)
	return err
}

// errBucket means that an image could not be stored.
var errBucket = errors.New("the object store takes no image")

// keep stores an image in the batch's bucket, unless it is there.
func (o *opened) keep(ctx context.Context, name string, png func() ([]byte, error)) error {
	if _, ok := o.sent.Load(name); ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	asking, asked := context.WithTimeout(ctx, 10*time.Second) // a question is lost if the server ends
	defer asked()
	if _, err := o.bucket.GetInfo(asking, name); err != nil {
		if !errors.Is(err, jetstream.ErrObjectNotFound) {
			return errors.Join(errBucket, err)
		}
		raw, err := png()
		if err != nil {
			return err
		}
		if _, err := o.bucket.PutBytes(ctx, name, raw); err != nil {
			return errors.Join(errBucket, err)
		}
	}
	o.sent.Store(name, true)
	return nil
}
