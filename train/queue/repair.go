package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// look finds out what is missing
		}
	}
	if n := len(d.out) - d.missing; n > 0 && q.deals == 0 {
		q.count.resumed.Add(int64(n))
		q.opts.log().Info("results of this batch are in the queue already", "episodes", n, "of", len(d.out))
	}
	q.deals++
	return nil
}

// clear removes all tasks, and the results and buckets of other batches. Only the first
// batch of a process finds results of its own, which it returns the number of: later in a
// process the same batch would have another policy.
func (d *deal) clear(ctx context.Context) (stored int, err error) {
	q := d.q
	tasks, err := q.js.Stream(ctx, q.names.tasks())
	if err == nil {
		err = tasks.Purge(ctx)
	}
	if err != nil {
		return 0, access(err)
	}
	if d.results, err = q.js.Stream(ctx, q.names.results()); err != nil {
		return 0, access(err)
	}
	info, err := d.results.Info(ctx, jetstream.WithSubjectFilter(q.names.resultOf("*")))
	if err != nil {
		return 0, access(err)
	}
	own := q.names.resultOf(d.batch)
	for subject, n := range info.State.Subjects {
		if subject == own && q.deals == 0 {
			stored = int(n)
			continue
		}
		if err := d.results.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return 0, access(err)
		}
	}
	keep := d.batch
	if q.deals > 0 {
		keep = "" // the settings of the batch before go, too
	}
	return stored, dropBuckets(ctx, q.js, q.names, keep)
}

// subscribe reads the results of the batch from the beginning.
func (d *deal) subscribe(ctx context.Context) (err error) {
	d.consumer, err = d.results.CreateConsumer(ctx, jetstream.ConsumerConfig{
		FilterSubject: d.q.names.resultOf(d.batch), AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
		InactiveThreshold: 5 * time.Minute, MemoryStorage: true,
	})
	if err != nil {
		return access(err)
	}
	return nil
}

// close ends the reading of results. That the server may not hear of it does not matter: it
// ends by itself.
func (d *deal) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if d.consumer != nil {
		d.results.DeleteConsumer(ctx, d.consumer.CachedInfo().Name)
	}
}

// publish fills the window with tasks. Tasks that the server does not take stay in todo.
func (d *deal) publish(ctx context.Context) {
	q := d.q
	for len(d.todo) > 0 && d.pending < q.opts.Window && ctx.Err() == nil {
		n := min(len(d.todo), q.opts.Window-d.pending, 512)
		futures := make([]jetstream.PubAckFuture, n)
		var failed error
		for k, i := range d.todo[:n] {
			raw, err := json.Marshal(&task{d.batch, d.nonce, i, d.attempts[i], d.encoded[i]})
			if err == nil && len(raw) > maxTask {
				err = fmt.Errorf("%w: task %d has %d bytes, at most %d are allowed", ErrOption, i, len(raw), maxTask)
			}
			if err == nil {
				futures[k], err = q.js.PublishAsync(q.names.taskOf(d.batch), raw, jetstream.WithMsgID(fmt.Sprintf("%s/%d/%d", d.nonce, i, d.attempts[i])))
			}
			failed = errors.Join(failed, err)
		}
		var left []int
		for k, i := range d.todo[:n] {
			if err := confirmed(ctx, futures[k]); err != nil {
				left, failed = append(left, i), err
				continue
			}
			d.pending++
		}
		d.todo = append(left, d.todo[n:]...)
		if failed != nil {
			d.warn("the server takes no tasks", failed)
			return
		}
	}
}

// confirmed waits for the server's answer to a message.
func confirmed(ctx context.Context, f jetstream.PubAckFuture) error {
	if f == nil {
		return errors.New("the message was not sent")
	}
	timeout := time.NewTimer(10 * time.Second)
	defer timeout.Stop()
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return err
	case <-timeout.C:
		return nats.ErrTimeout
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read reads the results that arrive within a tick, and returns the number of messages.
func (d *deal) read(ctx context.Context) (n int, err error) {
	batch, err := d.consumer.Fetch(256, jetstream.FetchMaxWait(tick))
	if err != nil {
		return 0, err
	}
	for m := range batch.Messages() {
		n++
		d.receive(ctx, m)
		if d.missing == 0 {
			return n, nil
		}
		if len(d.todo) > 0 && d.pending < d.q.opts.Window/2 {
			d.publish(ctx)
		}
		if ctx.Err() != nil {
			return n, nil
		}
	}
	return n, batch.Error()
}

// look finds out, when no results arrive, what the server has lost: because it was started
// again, lost power, or was replaced by an empty one.
func (d *deal) look(ctx context.Context) error {
	q := d.q
	if q.server != nil && !q.server.JetStreamEnabled() {
		return d.stopped(ErrServer)
	}
	results, err := q.js.Stream(ctx, q.names.results())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return d.again(ctx)
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
	if time.Since(d.progress) < 2*q.opts.Lease || len(d.todo) > 0 {
		return nil
	}
	tasks, err := q.js.Stream(ctx, q.names.tasks())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return d.again(ctx)
	}
	if err != nil {
		return err
	}
	if tasks.CachedInfo().State.Msgs == 0 { // nothing is left to play, and nothing has arrived
		return d.again(ctx)
	}
	c, err := tasks.Consumer(ctx, workersName)
	if err != nil {
		return err
	}
	if info := c.CachedInfo(); info.NumAckPending == 0 && info.NumWaiting == 0 {
		d.warn("no worker takes tasks", nil)
	}
	return nil
}

// again reads all results once more, and has what is still missing played again.
func (d *deal) again(ctx context.Context) (err error) {
	q := d.q
	if err := q.claim(ctx); err != nil {
		return err
	}
	if d.bucket, err = q.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: q.names.bucket(d.batch), Storage: jetstream.FileStorage}); err != nil {
		return err
	}
	d.close()
	if d.results, err = q.js.Stream(ctx, q.names.results()); err != nil {
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

