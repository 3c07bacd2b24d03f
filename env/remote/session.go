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

// session is an environment that a client has opened.
type session struct {
	id      string
	env     env.Env
	inform  Informer
	failure error // why a legacy environment could not be created; env is nil then

	// turn is full while a call runs, so that only one call of an environment runs at a
	// time. It also protects closed.
	turn   chan struct{}
	closed bool

	created time.Time
	order   uint64
	used    time.Time // guarded by sessions.mu
}

// errFull means that the limit on sessions is reached.
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

// reserve counts one environment, or returns errFull.
func (q *quota) reserve() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limit > 0 && q.taken >= q.limit {
		return errFull
	}
	q.taken++
	return nil
}

// release removes one environment from the count.
func (q *quota) release() {
	q.mu.Lock()
	q.taken--
	q.mu.Unlock()
}

// message is the original's text for errFull.
func (q *quota) message() string {
	return fmt.Sprintf("Max sessions limit reached (%d). Please try again later or close existing sessions.", q.limit)
}

func newSessions(q *quota) *sessions { return &sessions{quota: q, byID: make(map[string]*session)} }

// add adds a session, which the quota must have counted, and returns the session that
// had its name before, or nil.
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

// touch records the time at which a session is used.
func (t *sessions) touch(s *session) {
	now := time.Now()
	t.mu.Lock()
	s.used = now
	t.mu.Unlock()
}

// drop removes a session and releases its quota. It reports whether it was listed.
func (t *sessions) drop(s *session) bool {
	t.mu.Lock()
	listed := t.byID[s.id] == s
	if listed {
		delete(t.byID, s.id)
	}
	t.mu.Unlock()
	if listed {
		t.quota.release()
	}
	return listed
}

// idle lists the sessions that have not been used for longer than limit.
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

// sessionUse is a session with the time of its last use.
type sessionUse struct {
	*session
	used time.Time
}

// all lists the sessions, oldest first.
func (t *sessions) all() []sessionUse {
	t.mu.Lock()
	list := make([]sessionUse, 0, len(t.byID))
	for _, s := range t.byID {
		list = append(list, sessionUse{s, s.used})
	}
	t.mu.Unlock()
	slices.SortFunc(list, func(a, b sessionUse) int { return cmp.Compare(a.order, b.order) })
	return list
}

func (t *sessions) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}
