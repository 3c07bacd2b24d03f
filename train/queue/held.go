package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// maxFetch is the number of tasks that are taken together.
const maxFetch = 256

// free waits for a slot and returns the number of free slots, at most maxFetch, which are
// occupied then.
func (w *worker) free(ctx context.Context) (n int, ok bool) {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return 0, false
	}
	if ctx.Err() != nil {
		w.release(1)
		return 0, false
	}
	more := min(cap(w.slots)-len(w.slots), maxFetch-1) // nothing else occupies slots
	for range more {
		w.slots <- struct{}{}
	}
	return 1 + more, true
}

func (w *worker) release(n int) {
	for range n {
		<-w.slots
	}
}

// hold records a task.
func (w *worker) hold(m jetstream.Msg) *held {
	h := &held{m: m}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[h] = true
	return h
}

// done removes a task.
func (w *worker) done(h *held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.held, h); h.unlock != nil {
		h.unlock()
	}
}

// lock lets a task run beside others, or on its own.
func (w *worker) lock(h *held, alone bool) {
	if h.unlock = w.alone.RUnlock; alone {
		h.unlock = w.alone.Unlock
		w.alone.Lock()
	} else {
		w.alone.RLock()
	}
}

// extend extends the leases of all tasks, and reports that the worker runs.
func (w *worker) extend(ctx context.Context, done <-chan struct{}) {
	for {
		select {
		case <-w.ticker.C:
		case <-done:
			return
		}
		w.mu.Lock()
		all := slices.Collect(maps.Keys(w.held))
		w.mu.Unlock()
		for _, h := range all {
			h.m.InProgress() // if it fails, the task may be played twice
		}
		w.report(presence{})
		w.endOver(ctx)
	}
}

// open opens the batch of a task, once.
func (w *worker) open(ctx context.Context, t *task) *opened {
	key := t.Batch + "/" + t.Deal
	w.mu.Lock()
	of := w.opened[key]
	if of == nil {
		of = &opened{batch: t.Batch}
		of.ctx, of.end = context.WithCancel(ctx)
		w.keep(key, of)
	}
	w.mu.Unlock()
	of.once.Do(func() {
		if of.err = w.load(of.ctx, of, t); of.err != nil {
			of.end()
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.opened[key] == of {
				delete(w.opened, key)
				w.order = slices.DeleteFunc(w.order, func(k string) bool { return k == key })
			}
		}
	})
	return of
}

// keep records a batch, and ends the oldest of those that are too many: nothing else would find it to
// end it. w.mu is locked.
func (w *worker) keep(key string, of *opened) {
	w.opened[key] = of
	if w.order = append(w.order, key); len(w.order) > 4 {
		w.opened[w.order[0]].end()
		delete(w.opened, w.order[0])
		w.order = w.order[1:]
	}
}

// load reads the settings of a batch and opens environments and policy.
func (w *worker) load(ctx context.Context, of *opened, t *task) (err error) {
	if of.bucket, err = w.js.ObjectStore(ctx, w.names.bucket(t.Batch)); err != nil {
		return fmt.Errorf("queue: batch %s: %w", t.Batch, err)
	}
	all, err := w.js.ObjectStore(ctx, w.names.settings)
	if err != nil {
		return fmt.Errorf("queue: batch %s: its settings: %w", t.Batch, err)
	}
	raw, err := readObject(ctx, transferTimeout, all, t.Deal, maxSettings)
	var s settings
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return fmt.Errorf("queue: batch %s: its settings: %w", t.Batch, err)
	}
	w.supersede(of, s)
	err = safely(func() (err error) {
		of.Opened, err = w.opts.Open(ctx, s.Batch)
		return err
	})
	of.unusable = err != nil && of.ctx.Err() == nil
	return err
}

// supersede records the settings of a batch that could be read, and ends those before it: the
// trainer plays one at a time and removes the settings of the ones before. Episodes of these
// would keep the older weights in use, so that the new batch would have to wait for them.
func (w *worker) supersede(of *opened, s settings) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if of.settings = s; of.ctx.Err() != nil { // superseded itself
		return
	}
	for _, other := range w.opened {
		if other.batch != of.batch || string(other.settings.Policy) != string(s.Policy) {
			other.end()
		}
	}
}

// endOver ends the batches that the trainer has finished. A worker without a free slot does not
// hear of the next one.
func (w *worker) endOver(ctx context.Context) {
	w.mu.Lock()
	all := slices.Collect(maps.Values(w.opened))
	w.mu.Unlock()
	for _, of := range all {
		if of.ctx.Err() == nil && w.over(ctx, of.batch) {
			of.end()
		}
	}
}

// giveBack lets other workers play a task. It becomes a new message, because the number of
// deliveries of a message is that of the workers that ended while they played it.
func (w *worker) giveBack(ctx context.Context, h *held) {
	w.done(h)
	if ctx.Err() != nil && !w.nc.IsConnected() { // this worker ends; after its lease the task is delivered again
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := w.js.Publish(ctx, h.m.Subject(), h.m.Data()); err != nil {
		h.m.Nak()
		return
	}
	h.m.Ack()
}
