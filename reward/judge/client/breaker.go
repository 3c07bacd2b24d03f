package client

import (
	"sync"
	"time"
)

// breaker stops requests to a service that does not work. It is closed at first. After a
// number of failures in a row it is open for a while, and then lets one request pass, whose
// result closes it or opens it again.
type breaker struct {
	failures int           // in a row that open it; 0 never opens it
	pause    time.Duration // how long it stays open
	now      func() time.Time

	mu      sync.Mutex
	row     int       // failures in a row
	until   time.Time // when it lets a request pass again; zero while it is closed
	testing bool      // that request is under way
}

// allow reports whether a request may be sent. Each one that is must be followed by report.
func (b *breaker) allow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.until.IsZero():
		return true
	case b.testing || b.now().Before(b.until):
		return false
	}
	b.testing = true
	return true
}

// result is how a request ended.
type result int

const (
	worked result = iota
	failed
	unknown // it was given up, or says nothing about the service
)

// report notes the result of a request and returns whether that opened or closed the breaker.
func (b *breaker) report(r result) (opened, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case r == worked:
		closed = !b.until.IsZero()
		b.row, b.until, b.testing = 0, time.Time{}, false
	case r == failed && b.testing:
		b.until, b.testing = b.now().Add(b.pause), false
	case r == failed && b.until.IsZero():
		if b.row++; b.failures > 0 && b.row >= b.failures {
			opened, b.until = true, b.now().Add(b.pause)
		}
	case r == unknown:
		b.testing = false
	}
	return opened, closed
}
