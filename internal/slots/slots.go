// Package slots limits how many hold something at a time, such as the body of a request in memory.
package slots

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// Bodies of more than SmallBody bytes are in memory LargeBodies at a time.
const (
	SmallBody   = 1 << 20
	LargeBodies = 16
)

// preallocated is the largest body for which memory is allocated before it arrives.
const preallocated = 64 << 10

// Slots are as many as their capacity.
type Slots chan struct{}

// ForBodies returns the slots of large bodies.
func ForBodies() Slots { return make(Slots, LargeBodies) }

// Enter waits for a slot. leave frees it, and may be called more than once.
func (s Slots) Enter(ctx context.Context) (leave func(), err error) {
	select {
	case s <- struct{}{}:
		return sync.OnceFunc(func() { <-s }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Large reports whether a request's body is large, or its length unknown.
func Large(r *http.Request) bool { return r.ContentLength < 0 || r.ContentLength > SmallBody }

// ReadBody reads a request's body of at most most bytes, which must arrive within a time. A large one waits for a slot
// and holds it until leave is called, which may be more than once.
func (s Slots) ReadBody(
	w http.ResponseWriter, r *http.Request, most int64, within time.Duration,
) (raw []byte, leave func(), err error) {
	leave = func() {}
	length := r.ContentLength
	if length == 0 {
		return nil, leave, nil
	}
	if length > most { // none of it is waited for
		return nil, nil, &http.MaxBytesError{Limit: most}
	}
	if Large(r) {
		if leave, err = s.Enter(r.Context()); err != nil {
			return nil, nil, err
		}
	}
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(within)) // not supported by httptest.ResponseRecorder
	limited := http.MaxBytesReader(w, r.Body, most)
	if length > 0 && length <= min(most, preallocated) {
		raw = make([]byte, length)
		_, err = io.ReadFull(limited, raw)
	} else {
		raw, err = io.ReadAll(limited)
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	_ = c.SetReadDeadline(time.Time{})
	return raw, leave, nil
}
