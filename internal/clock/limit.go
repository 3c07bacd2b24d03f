package clock

import (
	"sync"
	"time"
)

// Limit calls End when a time limit that was set passes before it is cleared. Setting and clearing change
// the runtime's timer only if it would ring too late, because a change wakes a thread that waits for the network,
// which takes longer than a request. A timer that rings too early is set again.
type Limit struct {
	End func()

	mu     sync.Mutex
	timer  *time.Timer
	passes time.Time // when the limit passes; zero without one
	rings  time.Time // when the timer rings; zero if it is not running
}

// Set sets the limit, or changes it.
func (l *Limit) Set(limit time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passes = time.Now().Add(limit)
	if l.rings.IsZero() || l.passes.Before(l.rings) {
		l.ringAfter(limit)
	}
}

func (l *Limit) ringAfter(d time.Duration) {
	l.rings = l.passes
	if l.timer == nil {
		l.timer = time.AfterFunc(d, l.ring)
	} else {
		l.timer.Reset(d)
	}
}

// Clear removes the limit.
func (l *Limit) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passes = time.Time{}
}

func (l *Limit) ring() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rings = time.Time{}
	if l.passes.IsZero() {
		return
	}
	if left := time.Until(l.passes); left > 0 {
		l.ringAfter(left)
		return
	}
	l.End()
}

// Free removes the limit and stops the timer.
func (l *Limit) Free() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passes = time.Time{}
	if l.timer != nil {
		l.timer.Stop()
	}
}
