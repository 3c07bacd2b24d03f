package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrNoWorkers means that the workers ended with errors and no others came.
var ErrNoWorkers = errors.New("no worker is left")

// presence is a message of a worker. It may be lost.
type presence struct {
	ID    string
	Ended bool
	Err   string // why it ended; "" if it was told to
}

// report sends a presence.
func (w *worker) report(p presence) {
	p.ID = w.id
	if raw, err := json.Marshal(&p); err == nil { // of texts, which cannot fail
		w.nc.Publish(w.names.presence, raw)
	}
}

// end reports the end of the worker.
func (w *worker) end(err error) {
	p := presence{Ended: true}
	if err != nil {
		p.Err = shorten(err.Error())
	}
	w.report(p)
	if w.nc.IsConnected() {
		w.nc.FlushTimeout(5 * time.Second)
	}
}

// Limits on what workers may report.
const (
	maxWorkers = 1 << 16
	maxID      = 64
)

// attendance is which workers a trainer has heard of. Times are of its own clock.
type attendance struct {
	q *Queue

	mu          sync.Mutex
	live        map[string]time.Time // when a worker was last heard of, by id
	failed      int                  // workers that ended with an error
	first, last time.Time            // when the first and the last of them reported it
	why         string               // the last error
	logged      time.Time            // when an error was last logged
}

// hear records what a worker reports.
func (a *attendance) hear(m *nats.Msg) {
	var p presence
	if json.Unmarshal(m.Data, &p) != nil || p.ID == "" || len(p.ID) > maxID {
		return
	}
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !p.Ended {
		if _, known := a.live[p.ID]; known || len(a.live) < maxWorkers {
			a.live[p.ID] = now
		}
		return
	}
	if delete(a.live, p.ID); p.Err == "" {
		return
	}
	if a.failed == 0 {
		a.first = now
	}
	text := shorten(p.Err)
	if text != a.why || now.Sub(a.logged) > 30*time.Second {
		a.logged = now
		a.q.opts.log().Warn("queue: a worker ended; its episodes wait for others", "err", text)
	}
	a.failed, a.last, a.why = a.failed+1, now, text
}

// whyNone reports, for a batch that made progress at a time, whether workers that ended with an error
// are the reason why it makes no more: for the time of Options.NoWorkers there was no result, and now
// there is no worker.
func (a *attendance) whyNone(progress time.Time) error {
	limit := a.q.opts.NoWorkers
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, heard := range a.live {
		if now.Sub(heard) > a.q.opts.Lease {
			delete(a.live, id)
		}
	}
	if progress.Sub(a.last) > limit { // others played on, so that this is not why the batch waits now
		a.failed = 0
	}
	since := a.first
	if progress.After(since) {
		since = progress
	}
	if limit == 0 || a.failed == 0 || len(a.live) > 0 || now.Sub(since) < limit {
		return nil
	}
	return fmt.Errorf("queue: %w: %d ended with an error, and for %v no other played an episode; the last error: %s",
		ErrNoWorkers, a.failed, limit, a.why)
}
