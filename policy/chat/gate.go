package chat

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Gate decides when the requests of a Model are sent, and counts what they cost. One Gate may
// serve the Models of several processes.
type Gate interface {
	// Admit waits until a request may be sent. The id is the request's alone. An error that wraps
	// ErrBudget means that its estimate does not fit the budget. If Admit fails, Settle is not
	// called.
	Admit(ctx context.Context, id string, e Estimate) error
	// Settle ends an admitted request.
	Settle(id string, s Settlement)
	// Report tells what concerns other requests, too.
	Report(n Notice)
}

// Estimate is the most that a request may need, in tokens.
type Estimate struct{ Prompt, Completion int64 }

// Settlement is what became of a request.
type Settlement struct {
	Sent       bool // whether it was sent
	Retry      bool // whether it repeats another one
	Images     int64
	Counted    bool // whether the service counted its tokens
	Lost       bool // whether its answer or its count is missing, so that Prompt and Completion are estimates
	Prompt     int64
	Completion int64
	// CacheRead, CacheWrite and Image are parts of Prompt, Reasoning of Completion.
	CacheRead, CacheWrite, Image, Reasoning int64
}

// Notice is what concerns other requests, too.
type Notice struct {
	Pause  time.Duration // the service asks to send nothing for so long
	Failed bool          // a prompt has no answer
}

func (s *Settlement) tokens() tokens {
	return tokens{prompt: s.Prompt, completion: s.Completion, cacheRead: s.CacheRead, cacheWrite: s.CacheWrite, image: s.Image, reasoning: s.Reasoning}
}

func settlement(used tokens, how bill, images int64, retry bool) Settlement {
	return Settlement{
		Sent: how != unsent, Retry: retry, Images: images, Counted: how == counted, Lost: how == lost,
		Prompt: used.prompt, Completion: used.completion, CacheRead: used.cacheRead, CacheWrite: used.cacheWrite, Image: used.image, Reasoning: used.reasoning,
	}
}

// check returns an error if the numbers cannot be those of a request.
func (s *Settlement) check() error {
	const most = 1 << 40
	for _, n := range []int64{s.Images, s.Prompt, s.Completion, s.CacheRead, s.CacheWrite, s.Image, s.Reasoning} {
		if n < 0 || n > most {
			return fmt.Errorf("chat: the settlement %+v has numbers outside [0, %d]", *s, int64(most))
		}
	}
	return nil
}

// Limits is a Gate with the limits of Options: Concurrency, RequestsPerMinute, TokensPerMinute
// and Budget. It is safe for concurrent use.
type Limits struct {
	slots  chan struct{}
	pace   *pacer
	ledger *ledger

	mu       sync.Mutex
	admitted map[string]*admitted
}

// admitted is a request that was admitted and not settled.
type admitted struct {
	estimate tokens
	start    *event
}

var _ Gate = (*Limits)(nil)

// NewLimits checks the options and returns their limits. It reads no key.
func NewLimits(o Options) (*Limits, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Limits{slots: make(chan struct{}, o.Concurrency), pace: newPacer(&o), ledger: newLedger(&o), admitted: map[string]*admitted{}}, nil
}

// Usage returns the requests, tokens and cost so far.
func (l *Limits) Usage() Usage { return l.ledger.usage() }

// Admit implements Gate.
func (l *Limits) Admit(ctx context.Context, id string, e Estimate) error {
	if check := (Settlement{Prompt: e.Prompt, Completion: e.Completion}); check.check() != nil {
		return check.check()
	}
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	most := l.ledger.estimate(e.Prompt, e.Completion)
	start, err := admit(ctx, l.ledger, l.pace, most)
	if err != nil {
		<-l.slots
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.admitted[id] != nil {
		l.ledger.commit(most, tokens{}, unsent, 0, false)
		l.pace.setTokens(start, 0)
		<-l.slots
		return fmt.Errorf("chat: the request %q is admitted already", id)
	}
	l.admitted[id] = &admitted{most, start}
	return nil
}

// Settle implements Gate. What is not admitted, or settled already, is ignored.
func (l *Limits) Settle(id string, s Settlement) {
	l.mu.Lock()
	a := l.admitted[id]
	delete(l.admitted, id)
	l.mu.Unlock()
	if a == nil {
		return
	}
	how, used := free, tokens{}
	switch {
	case !s.Sent:
		how = unsent
	case s.check() != nil:
		how, used = lost, a.estimate
	case s.Counted:
		how, used = counted, s.tokens()
	case s.Lost:
		how, used = lost, s.tokens()
	}
	l.pace.setTokens(a.start, used.prompt+used.completion)
	l.ledger.commit(a.estimate, used, how, max(0, s.Images), s.Retry)
	<-l.slots
}

// Abandon settles a request of which nothing will be heard: its estimate counts.
func (l *Limits) Abandon(id string) {
	l.mu.Lock()
	a := l.admitted[id]
	l.mu.Unlock()
	if a != nil {
		l.Settle(id, settlement(a.estimate, lost, 0, false))
	}
}

// Report implements Gate.
func (l *Limits) Report(n Notice) {
	if n.Pause > 0 {
		l.pace.pause(min(n.Pause, time.Hour))
	}
	if n.Failed {
		l.ledger.failed()
	}
}

// admit waits for the budget and the limits per minute.
func admit(ctx context.Context, l *ledger, p *pacer, estimate tokens) (*event, error) {
	if err := l.reserve(ctx, estimate); err != nil {
		return nil, err
	}
	start, err := p.wait(ctx, estimate.prompt+estimate.completion)
	if err != nil {
		l.commit(estimate, tokens{}, unsent, 0, false)
	}
	return start, err
}
