package remote

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"vagen/env"
)

// session is one live environment and what is known of it.
type session struct {
	id      string
	env     env.Env
	inform  Informer
	failure error // a legacy environment that could not be made; env is nil then

	// turn holds a token while a call runs, so that the calls of one environment
	// come one at a time. gone is guarded by it.
	turn chan struct{}
	gone bool

	created time.Time
	order   uint64
	used    time.Time // guarded by sessions.mu
}

// errFull is answered when the limit of sessions is reached.
var errFull = errors.New("max sessions limit reached")

// errBatch is wrapped by the error about a request for too many environments.
var errBatch = errors.New("too many environments in one request")

// sessions are the live environments of one protocol.
type sessions struct {
	quota *quota
	mu    sync.Mutex
	byID  map[string]*session
	count uint64
}

// quota counts the environments of all protocols.
type quota struct {
	mu    sync.Mutex
	limit int // 0 is none
	taken int
}

// take reserves room for one environment.
func (q *quota) take() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limit > 0 && q.taken >= q.limit {
		return errFull
	}
	q.taken++
	return nil
}

func (q *quota) give() {
	q.mu.Lock()
	q.taken--
	q.mu.Unlock()
}

// full words the refusal as the original does.
func (q *quota) full() string {
	return fmt.Sprintf("Max sessions limit reached (%d). Please try again later or close existing sessions.", q.limit)
}

func newSessions(q *quota) *sessions { return &sessions{quota: q, byID: make(map[string]*session)} }

// add lists a session, for which room was taken, and returns the one that had its
// name before, nil if none did.
func (t *sessions) add(s *session) (before *session) {
	s.turn = make(chan struct{}, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	before = t.byID[s.id]
	t.count++
	s.order = t.count
	s.created = time.Now()
	s.used = s.created
	t.byID[s.id] = s
	return before
}

// get returns a session, nil if there is none with that name.
func (t *sessions) get(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// touch notes that a session is in use.
func (t *sessions) touch(s *session) {
	now := time.Now()
	t.mu.Lock()
	s.used = now
	t.mu.Unlock()
}

// drop takes a session off the list and gives its room back. It reports whether
// it was listed.
func (t *sessions) drop(s *session) bool {
	t.mu.Lock()
	listed := t.byID[s.id] == s
	if listed {
		delete(t.byID, s.id)
	}
	t.mu.Unlock()
	if listed {
		t.quota.give()
	}
	return listed
}

// idle lists the sessions that nobody has used for longer than limit.
func (t *sessions) idle(limit time.Duration) []*session {
	var list []*session
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.byID {
		if now.Sub(s.used) > limit {
			list = append(list, s)
		}
	}
	return list
}

// seen is a session and when it was used last.
type seen struct {
	*session
	used time.Time
}

// all lists the sessions, oldest first.
func (t *sessions) all() []seen {
	t.mu.Lock()
	list := make([]seen, 0, len(t.byID))
	for _, s := range t.byID {
		list = append(list, seen{s, s.used})
	}
	t.mu.Unlock()
	slices.SortFunc(list, func(a, b seen) int { return cmp.Compare(a.order, b.order) })
	return list
}

func (t *sessions) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}
