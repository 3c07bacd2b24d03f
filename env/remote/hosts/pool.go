// Package hosts chooses among many services that host the same sessions, such as those of
// environments, for all clients of a process.
//
// A Pool knows the parsed addresses, the number of sessions on each service, and which
// services do not answer. A client has a Session of the Pool; for each of its requests it
// begins an Attempt, which names the service to ask and records the result.
package hosts

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"vagen/internal/retry"
)

// Pool is what the clients of a process share about their services.
//
// A new session goes to the service with the fewest sessions of this process. Among equals
// the first one counted from the session's key is chosen, so that several processes begin at
// different services.
//
// A service is ejected when a connection cannot be made, or when several requests in a row
// got no answer: new sessions then go to other services. After a pause, which doubles with
// each failed probe, the next opening of a session starts a probe in the background, whose
// success readmits the service. If all services are ejected, they are used as if none were. A
// service that answers, but refuses or fails to open sessions, is not ejected; each failure in
// a row counts as one more session when a service is chosen.
//
// All methods are safe for concurrent use.
type Pool struct {
	o      Options
	stop   context.CancelFunc
	ctx    context.Context // of probes
	probes sync.WaitGroup

	mu     sync.Mutex
	closed bool
	byURL  map[string]*Host
	lists  map[string][]*Host // by the URLs, one per line
	next   uint64             // key of the next session without one
}

// Options are the settings of a Pool. Every value is used as written.
type Options struct {
	EjectAfter   int           // requests in a row without an answer after which a service is ejected
	Pause        time.Duration // from an ejection to the first probe; doubles with each failed probe
	MaxPause     time.Duration // longest pause
	ProbeTimeout time.Duration // of a probe
	FirstKey     uint64        // key of the first session without a key; further ones count from it
}

// DefaultOptions ejects after three requests without an answer, and probes after 5 s and
// then ever more rarely, down to once a minute, with 5 s for each probe.
func DefaultOptions() Options {
	return Options{EjectAfter: 3, Pause: 5 * time.Second, MaxPause: time.Minute, ProbeTimeout: 5 * time.Second}
}

// New returns a Pool that knows no service yet. Limits and times below 1 are used as 1.
func New(o Options) *Pool {
	o.EjectAfter = max(o.EjectAfter, 1)
	o.Pause, o.ProbeTimeout = max(o.Pause, 1), max(o.ProbeTimeout, 1)
	o.MaxPause = max(o.MaxPause, o.Pause)
	p := &Pool{o: o, byURL: map[string]*Host{}, lists: map[string][]*Host{}, next: o.FirstKey}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Close cancels running probes and waits for their end. The pool may be used further, but no
// ejected service is probed any more.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	if p.stop != nil {
		p.stop()
	}
	p.probes.Wait()
	return nil
}

// Status is the state of one service.
type Status struct {
	URL      string // without a password
	Sessions int    // of this process, including those that are being opened
	Ejected  bool
}

// Status returns the state of all services, sorted by URL.
func (p *Pool) Status() []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Status, 0, len(p.byURL))
	for _, h := range p.byURL {
		out = append(out, Status{URL: h.name, Sessions: h.sessions, Ejected: h.ejected})
	}
	slices.SortFunc(out, func(a, b Status) int { return strings.Compare(a.URL, b.URL) })
	return out
}

// choose returns the best service for a session and counts the session there; nil if there is none. The
// service not is the last choice.
func (p *Pool) choose(s *Session, key uint64, not *Host) *Host {
	p.mu.Lock()
	defer p.mu.Unlock()
	better := func(a, b *Host) bool {
		switch {
		case b == nil:
			return true
		case a.ejected != b.ejected:
			return b.ejected
		case (a == not) != (b == not):
			return b == not
		}
		return a.load() < b.load()
	}
	var best *Host
	n, now := uint64(len(s.hosts)), time.Now()
	for i := range n {
		h := s.hosts[(key%n+i)%n]
		if better(h, best) {
			best = h
		}
		if s.o.Probe != nil && h.ejected && !h.probing && !p.closed && !now.Before(h.due) {
			h.probing = true
			p.probes.Go(func() { p.probe(s, h) })
		}
	}
	if best != nil {
		best.sessions++
	}
	return best
}

// release uncounts a session.
func (p *Pool) release(h *Host) {
	if h == nil {
		return
	}
	p.mu.Lock()
	h.sessions--
	p.mu.Unlock()
}

// probe asks an ejected service whether it answers.
func (p *Pool) probe(s *Session, h *Host) {
	ctx, cancel := context.WithTimeout(p.ctx, p.o.ProbeTimeout)
	defer cancel()
	err := s.o.Probe(ctx, h)
	p.mu.Lock()
	defer p.mu.Unlock()
	h.probing = false
	switch {
	case err == nil:
		p.readmit(s, h)
	case h.ejected:
		p.pause(h)
	}
}

// answered records that a service answered a request.
func (p *Pool) answered(s *Session, h *Host, r Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.silent = 0
	if h.ejected {
		p.readmit(s, h)
	}
	switch r {
	case Opened:
		h.refusals = 0
	case Refused:
		h.refusals++
	}
}

// lost records that a request got no answer.
func (p *Pool) lost(s *Session, h *Host, r Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.silent++
	if !h.ejected && (r == Unreachable || h.silent >= p.o.EjectAfter) {
		h.ejected, h.pauses = true, 0
		p.pause(h)
		s.o.Log.Warn("service ejected", "url", h.name, "unanswered", h.silent, "pause",
			time.Until(h.due).Round(time.Millisecond))
	}
}

// gone reports whether a session's service is ejected and another one that the session may use is not.
func (p *Pool) gone(s *Session, h *Host) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return h != nil && h.ejected && slices.ContainsFunc(s.hosts, func(o *Host) bool { return !o.ejected })
}

func (p *Pool) pause(h *Host) {
	h.due = time.Now().Add(retry.Steady(p.o.Pause, p.o.MaxPause).Delay(h.pauses, 0))
	h.pauses++
}

func (p *Pool) readmit(s *Session, h *Host) {
	if h.ejected {
		s.o.Log.Info("service readmitted", "url", h.name)
	}
	h.ejected, h.pauses, h.silent, h.refusals = false, 0, 0, 0
}
