package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// maxFetch is the number of tasks that are taken together.
const maxFetch = 256

// free waits for a slot and returns the number of free slots, at most maxFetch, which are
// occupied then.
func (w *worker) free(ctx context.Context) (n int, ok bool) {
	select {
	case w.slots <- struct{}{}:
		n++
	case <-ctx.Done():
		return 0, false
	}
	if ctx.Err() != nil {
		w.release(n)
		return 0, false
	}
	for n < min(cap(w.slots), maxFetch) {
		select {
		case w.slots <- struct{}{}:
			n++
			continue
		default:
		}
		break
	}
	return n, true
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

// extend extends the leases of all tasks.
func (w *worker) extend(done <-chan struct{}) {
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
	}
}

// open opens the batch of a task, once.
func (w *worker) open(ctx context.Context, t *task) *opened {
	key := t.Batch + "/" + t.Deal
	w.mu.Lock()
	of := w.opened[key]
	if of == nil {
		of = &opened{}
		w.opened[key] = of
		if w.order = append(w.order, key); len(w.order) > 4 {
			delete(w.opened, w.order[0])
			w.order = w.order[1:]
		}
	}
	w.mu.Unlock()
	of.once.Do(func() {
		if of.err = w.load(ctx, of, t); of.err != nil {
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

// load reads the settings of a batch and opens environments and policy.
func (w *worker) load(ctx context.Context, of *opened, t *task) (err error) {
	if of.bucket, err = w.js.ObjectStore(ctx, w.names.bucket(t.Batch)); err != nil {
		return fmt.Errorf("queue: batch %s: %w", t.Batch, err)
	}
	all, err := w.js.ObjectStore(ctx, w.names.settings())
	if err != nil {
		return fmt.Errorf("queue: batch %s: its settings: %w", t.Batch, err)
	}
	raw, err := readObject(ctx, transferTimeout, all, t.Deal, maxSettings)
	if err == nil {
		err = json.Unmarshal(raw, &of.settings)
	}
	if err != nil {
		return fmt.Errorf("queue: batch %s: its settings: %w", t.Batch, err)
	}
	err = safely(func() (err error) {
		of.player, err = w.opts.Open(ctx, of.settings.Setup, of.settings.Policy)
		return err
	})
	of.unusable = err != nil
	return err
}
