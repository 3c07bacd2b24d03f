package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vagen/internal/clock"
	"vagen/internal/pace"

	"github.com/nats-io/nats.go/jetstream"
)

// findLost finds out, when no results arrive, what the server has lost: because it was started
// again, lost power, or was replaced by an empty one.
func (d *deal) findLost(ctx context.Context) error {
	q := d.q
	if q.server.failed() {
		return d.stopped(ErrServer)
	}
	results, err := q.js.Stream(ctx, q.names.results)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return d.redealLater(ctx)
	}
	if err != nil {
		return err
	}
	d.results = results
	if _, err := d.consumer.Info(ctx); errors.Is(err, jetstream.ErrConsumerNotFound) {
		return d.subscribe(ctx)
	} else if err != nil {
		return err
	}
	tasks, err := q.js.Stream(ctx, q.names.tasks)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return d.redealLater(ctx)
	}
	if err != nil {
		return err
	}
	waiting, err := d.countTasks(ctx, tasks)
	// Workers that are alive may not have been heard of while the server was not there.
	if err == nil && time.Since(d.disturbed) > q.opts.Lease {
		err = q.seen.whyNone(d.progress)
	}
	if err != nil || time.Since(d.progress) < 2*q.opts.Lease || len(d.todo) > 0 {
		return err
	}
	// A task that is not on the server has a result, which has arrived or waits to be read. A server that lost
	// its memory numbers tasks anew, so that a worker may acknowledge one that it never had.
	if waiting < d.pending {
		if unread, err := d.consumer.Info(ctx); err != nil || unread.NumPending > 0 {
			return err
		}
		return d.redeal(ctx)
	}
	if _, err := d.all.GetInfo(ctx, d.nonce); errors.Is(err, jetstream.ErrObjectNotFound) ||
		errors.Is(err, jetstream.ErrStreamNotFound) {
		return d.redeal(ctx)
	}
	c, err := tasks.Consumer(ctx, tasks.CachedInfo().Config.Metadata[consumerKey])
	if err != nil {
		return err
	}
	if info := c.CachedInfo(); info.NumAckPending == 0 && info.NumWaiting == 0 {
		d.warn("no worker takes tasks", nil)
	}
	return nil
}

// countTasks returns the number of tasks of this deal on the server. It removes those of other deals,
// which workers of an earlier process gave back: their settings are not on the server any more,
// so no worker can play them.
func (d *deal) countTasks(ctx context.Context, tasks jetstream.Stream) (n int, err error) {
	info, err := tasks.Info(ctx, jetstream.WithSubjectFilter(d.q.names.taskOf("*", "*")))
	if err != nil {
		return 0, err
	}
	own := d.q.names.taskOf(d.batch, d.nonce)
	for subject, k := range info.State.Subjects {
		if subject == own {
			n = int(k)
		} else if err := tasks.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// redealLater is redeal for a stream that was removed. The server needs a moment: a stream that is
// created while the files of one with the same name are being removed does not store anything.
func (d *deal) redealLater(ctx context.Context) error {
	if err := clock.Wait(ctx, pace.Tick); err != nil {
		return err
	}
	return d.redeal(ctx)
}

// openBucket opens the batch's bucket, and creates it if it is not there.
func (d *deal) openBucket(ctx context.Context) (err error) {
	d.bucket, err = d.q.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: d.q.names.bucket(d.batch), Storage: jetstream.FileStorage})
	return err
}

// purgeTasks removes all tasks.
func (d *deal) purgeTasks(ctx context.Context) error {
	tasks, err := d.q.js.Stream(ctx, d.q.names.tasks)
	if err == nil {
		err = tasks.Purge(ctx)
	}
	return err
}

// redeal reads all results once more, and has what is still missing played again.
func (d *deal) redeal(ctx context.Context) (err error) {
	q := d.q
	if err := q.claim(ctx); err != nil {
		return err
	}
	if err := d.openBucket(ctx); err != nil {
		return err
	}
	d.close()
	if d.results, err = q.js.Stream(ctx, q.names.results); err != nil {
		return err
	}
	if err := d.subscribe(ctx); err != nil {
		return err
	}
	for n := 1; n > 0 && d.missing > 0; {
		if n, err = d.read(ctx); err != nil {
			return err
		}
	}
	// What workers have of these tasks may be on the server still, and would be played twice.
	if err := d.purgeTasks(ctx); err != nil {
		return err
	}
	d.restart()
	d.nonce, d.progress = nonce(), time.Now()
	q.count.redealt.Add(int64(len(d.todo)))
	q.opts.log().Warn("the queue has lost tasks or results, they are played again", "episodes", len(d.todo))
	return d.announce(ctx)
}

// stopped is the error of an embedded server that has stopped, which it does if it cannot write.
func (d *deal) stopped(err error) error {
	return fmt.Errorf("queue: %w: the embedded server has stopped because it could not write to %s; the run can be resumed when its disk has room: %w", errStopped, d.q.opts.Dir, err)
}

// errStopped is an ErrServer that waiting does not mend.
var errStopped = fmt.Errorf("%w", ErrServer)
