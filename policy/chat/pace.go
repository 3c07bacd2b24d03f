package chat

import (
	"context"
	"sync"
	"time"
)

// window is the period of the limits per minute.
const window = time.Minute

// pacer delays requests so that no window exceeds the limits. Requests start in the
// order in which they call wait.
type pacer struct {
	requests int   // per window, 0 for no limit
	tokens   int64 // per window, 0 for no limit
	head     chan struct{}

	mu      sync.Mutex
	events  []*event // of the last window, in order
	paused  time.Time
	changed chan struct{}
}

// event is a request that has started.
type event struct {
	at     time.Time
	tokens int64
}

func newPacer(o *Options) *pacer {
	return &pacer{requests: o.RequestsPerMinute, tokens: int64(o.TokensPerMinute), head: make(chan struct{}, 1),
		changed: make(chan struct{})}
}

// wait returns when a request with this number of tokens may start.
func (p *pacer) wait(ctx context.Context, tokens int64) (*event, error) {
	select {
	case p.head <- struct{}{}:
		defer func() { <-p.head }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		p.mu.Lock()
		now := time.Now()
		delay := p.delay(now, tokens)
		if delay <= 0 {
			e := &event{now, tokens}
			if p.requests > 0 || p.tokens > 0 {
				p.events = append(p.events, e)
			}
			p.mu.Unlock()
			return e, nil
		}
		changed := p.changed
		p.mu.Unlock()
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// delay returns how long to wait until a request fits into the window.
func (p *pacer) delay(now time.Time, tokens int64) time.Duration {
	old := 0
	for old < len(p.events) && now.Sub(p.events[old].at) >= window {
		old++
	}
	p.events = p.events[old:]
	delay := p.paused.Sub(now)
	wait := func(e *event) { delay = max(delay, e.at.Add(window).Sub(now)) }
	if n := len(p.events); p.requests > 0 && n >= p.requests {
		wait(p.events[n-p.requests])
	}
	if p.tokens > 0 {
		sum := tokens
		for _, e := range p.events {
			sum += e.tokens
		}
		for _, e := range p.events {
			if sum <= p.tokens {
				break
			}
			wait(e)
			sum -= e.tokens
		}
	}
	return delay
}

// setTokens corrects the tokens of a request.
func (p *pacer) setTokens(e *event, tokens int64) {
	p.mu.Lock()
	e.tokens = tokens
	p.notify()
	p.mu.Unlock()
}

// pause prevents requests from starting for a while.
func (p *pacer) pause(d time.Duration) {
	p.mu.Lock()
	if until := time.Now().Add(d); until.After(p.paused) {
		p.paused = until
	}
	p.mu.Unlock()
}

func (p *pacer) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}
