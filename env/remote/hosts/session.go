package hosts

import (
	"context"
	"log/slog"

	"vagen/internal/silent"
	"vagen/internal/unmade"
)

// SessionOptions are the settings of a Session.
type SessionOptions struct {
	// FailoverAfter is the number of retries at one service: after so many, the opening of
	// a session is tried elsewhere, and a session whose service is ejected is given up.
	FailoverAfter int
	// Probe asks whether a service answers. It may be called after the session has ended. Without it this
	// session probes no ejected service.
	Probe func(context.Context, *Host) error
	// Log receives ejections and readmissions. Nil discards them.
	Log *slog.Logger
}

// Session is the place of one client in a Pool. Its methods must not be called concurrently.
type Session struct {
	o     SessionOptions
	pool  *Pool
	hosts []*Host
	key   uint64
	host  *Host
}

// Session returns a session, which is not open yet, at one of the services of base URLs. Its key is the
// next one in the order of calls. The errors are those of Check; they have no passwords.
func (p *Pool) Session(urls []string, o SessionOptions) (*Session, error) {
	if p.byURL == nil {
		return nil, unmade.Error("hosts.Pool", "New")
	}
	o.Log = silent.Log(o.Log)
	p.mu.Lock()
	defer p.mu.Unlock()
	hosts, err := p.list(urls)
	if err != nil {
		return nil, err
	}
	p.next++
	return &Session{o: o, pool: p, hosts: hosts, key: p.next - 1}, nil
}

// Hosts returns the services that the session may use, in the order of the addresses. The slice must not be changed.
func (s *Session) Hosts() []*Host { return s.hosts }

// Key returns the session's key.
func (s *Session) Key() uint64 { return s.key }

// Host returns the service of the session, nil unless it is open.
func (s *Session) Host() *Host { return s.host }

// Gone reports whether the session's service is ejected and others are in use.
func (s *Session) Gone() bool { return s.host != nil && s.pool.gone(s, s.host) }

// Leave records that the session has ended.
func (s *Session) Leave() {
	s.pool.release(s.host)
	s.host = nil
}

// Kind is what a request is for.
type Kind int

// The kinds.
const (
	Call Kind = iota // a request of an open session
	Open             // it opens the session, at any service
)

// Result is what an attempt says about its service.
type Result int

// The results.
const (
	Answered    Result = iota // it answered; what it answered says nothing about it
	Opened                    // it opened a session
	Refused                   // it answered, and did not open a session
	Silent                    // no answer came, or not all of it
	Unreachable               // no connection could be made
)

// Attempt is a request and the service that it is sent to, which changes between retries.
type Attempt struct {
	s     *Session
	kind  Kind
	key   uint64
	host  *Host
	held  bool // a session is counted at host for this request
	here  int  // retries at host
	moves int
}

// Begin chooses the service of a request's first attempt. Open ends the session that was open. That
// of a zero value has no service.
func (s *Session) Begin(kind Kind, key uint64) *Attempt {
	a := &Attempt{s: s, kind: kind, key: key, host: s.host}
	switch {
	case s.pool == nil:
	case kind == Open:
		s.Leave()
		a.choose(nil)
	case a.host == nil:
		a.host = s.hosts[0]
	}
	return a
}

// Host returns the service of the next attempt, nil if there is none.
func (a *Attempt) Host() *Host { return a.host }

// choose counts the request's session at the best service, and uncounts it where it was.
func (a *Attempt) choose(not *Host) {
	if a.held {
		a.s.pool.release(a.host)
	}
	a.host = a.s.pool.choose(a.s, a.key, not)
	a.held, a.here = a.host != nil, 0
}

// Report records the result of an attempt.
func (a *Attempt) Report(r Result) {
	if a.host == nil {
		return
	}
	if r == Silent || r == Unreachable {
		a.s.pool.lost(a.s, a.host, r)
		return
	}
	if a.kind != Open && (r == Opened || r == Refused) {
		r = Answered
	}
	a.s.pool.answered(a.s, a.host, r)
}

// Move changes the service at once if it is ejected, the request may be sent to any, and
// another one is in use. It reports whether it did.
func (a *Attempt) Move() bool {
	if !a.held || a.moves >= len(a.s.hosts) || !a.s.pool.gone(a.s, a.host) {
		return false
	}
	a.moves++
	a.choose(a.host)
	return true
}

// Next chooses the service of a retry: see SessionOptions.FailoverAfter.
func (a *Attempt) Next() {
	if a.here++; a.held && a.here > a.s.o.FailoverAfter {
		a.choose(a.host)
	}
}

// GiveUp reports whether the session has to be given up, because its service is ejected after
// all retries there and others are in use.
func (a *Attempt) GiveUp() bool {
	return a.host != nil && a.kind == Call && a.here >= a.s.o.FailoverAfter && a.s.pool.gone(a.s, a.host)
}

// Succeeded keeps the service for the requests of the session.
func (a *Attempt) Succeeded() {
	if a.held {
		a.s.host, a.held = a.host, false
	}
}

// Failed uncounts the request's session.
func (a *Attempt) Failed() {
	if a.held {
		a.s.pool.release(a.host)
		a.held = false
	}
}
