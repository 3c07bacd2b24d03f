package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"vagen/internal/clock"
	"vagen/internal/pace"
)

// take takes tasks and starts to play them.
func (w *worker) take(ctx context.Context, start func(*held)) error {
	var c jetstream.Consumer
	for warned := false; ; {
		n, ok := w.free(ctx)
		if !ok {
			return nil
		}
		var err error
		if c == nil {
			if c, err = w.consumer(ctx); err != nil {
				c = nil
			}
		}
		if errors.Is(err, errProtocol) {
			w.release(n)
			return err
		}
		if err == nil {
			warned = false
			n, err = w.fetch(ctx, c, n, start)
		}
		w.release(n)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if err := ended(w.nc); err != nil {
			return err
		}
		if err := w.reported.explain(err); errors.Is(err, ErrAccess) {
			return err
		}
		if !warned {
			warned = true
			w.opts.log().Info("waiting for the queue", "queue", w.opts.Name, "err", err)
		}
		c = nil
		clock.Wait(ctx, time.Second/4)
	}
}

// fetch takes up to n tasks, and returns how many of them did not come.
func (w *worker) fetch(ctx context.Context, c jetstream.Consumer, n int, start func(*held)) (left int, err error) {
	batch, err := c.Fetch(n, jetstream.FetchMaxWait(pace.Fetch))
	if err != nil {
		return n, err
	}
	messages := batch.Messages()
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				return n, batch.Error()
			}
			n--
			start(w.hold(m))
		case <-ctx.Done():
			// Tasks that still arrive are given to other workers.
			for m := range messages {
				w.giveBack(ctx, w.hold(m))
			}
			return n, nil
		}
	}
}

// errProtocol means that trainer and worker are of different versions.
var errProtocol = errors.New("trainer and worker have different protocols")

// consumer returns the consumer of tasks.
func (w *worker) consumer(ctx context.Context) (jetstream.Consumer, error) {
	tasks, err := w.js.Stream(ctx, w.names.tasks)
	if err != nil {
		return nil, err
	}
	meta := tasks.CachedInfo().Config.Metadata
	if v := meta[protocolKey]; v != protocol {
		return nil, fmt.Errorf("queue: %w: the trainer has %q, this worker %q: use the same version of the program",
			errProtocol, v, protocol)
	}
	c, err := tasks.Consumer(ctx, meta[consumerKey])
	if err != nil {
		return nil, err
	}
	w.report(presence{})
	w.mu.Lock()
	defer w.mu.Unlock()
	if lease := max(c.CachedInfo().Config.AckWait, 100*time.Millisecond); lease != w.lease {
		w.lease = lease
		w.ticker.Reset(lease / 3)
	}
	return c, nil
}
