package remote

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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
	used    atomic.Int64 // nanoseconds from created to the last use
}

// touch records that the session is used now.
func (s *session) touch() { s.used.Store(int64(time.Since(s.created))) }

// idle is the time since the last use.
func (s *session) idle() time.Duration { return time.Since(s.created) - time.Duration(s.used.Load()) }

// errFull means that the limit on sessions is reached.
var errFull = errors.New("max sessions limit reached")

// errBatch is wrapped by the error about a request for too many environments.
var errBatch = errors.New("too many environments in one request")

// sessions are the live environments of one protocol.
type sessions struct {
	quota *quota
	mu    sync.Mutex
	byID  map[string]*session
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
	s.created = time.Now()
	t.byID[s.id] = s
	return before
}

// get returns a session, nil if there is none with that name.
func (t *sessions) get(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
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
	return slices.DeleteFunc(t.all(), func(s *session) bool { return s.idle() <= limit })
}

// all lists the sessions, oldest first.
func (t *sessions) all() []*session {
	t.mu.Lock()
	list := slices.Collect(maps.Values(t.byID))
	t.mu.Unlock()
	slices.SortFunc(list, func(a, b *session) int { return a.created.Compare(b.created) })
	return list
}

func (t *sessions) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}
