package chat

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
)

// tokens counts tokens of one or many requests.
type tokens struct {
	prompt, completion           int64
	cacheRead, cacheWrite, image int64 // of the prompt
	reasoning                    int64 // of the completion
}

func (t *tokens) add(u tokens) {
	t.prompt += u.prompt
	t.completion += u.completion
	t.cacheRead += u.cacheRead
	t.cacheWrite += u.cacheWrite
	t.image += u.image
	t.reasoning += u.reasoning
}

func (t *tokens) sub(u tokens) {
	u.prompt, u.completion, u.cacheRead = -u.prompt, -u.completion, -u.cacheRead
	u.cacheWrite, u.image, u.reasoning = -u.cacheWrite, -u.image, -u.reasoning
	t.add(u)
}

// cost returns the cost of tokens. It is computed from integer counts, so it does not
// depend on the order of the requests.
func (p Price) cost(t tokens) float64 {
	read, write := cmp.Or(p.CacheRead, p.Prompt), cmp.Or(p.CacheWrite, p.Prompt)
	plain := max(0, t.prompt-t.cacheRead-t.cacheWrite)
	return (float64(plain)*p.Prompt + float64(t.cacheRead)*read + float64(t.cacheWrite)*write +
		float64(t.completion)*p.Completion) / 1e6
}

// Usage is a Model's requests, tokens and cost so far.
type Usage struct {
	Requests  int64 // sent, retries included
	Retries   int64
	Failures  int64 // prompts without an answer
	Images    int64 // images sent, counted each time
	Uncounted int64 // requests whose tokens the service did not report, lost answers included

	// As the service counted them.
	PromptTokens     int64
	CacheReadTokens  int64 // of the prompt, read from the service's cache
	CacheWriteTokens int64 // of the prompt, written to it
	ImageTokens      int64 // of the prompt, where the service says
	CompletionTokens int64
	ReasoningTokens  int64 // of the completion, where the service says

	Cost    float64 // by Options.Prices; 0 without a price
	Assumed float64 // part of Cost: uncounted requests at their estimate
}

var _ slog.LogValuer = Usage{}

// LogValue implements slog.LogValuer.
func (u Usage) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int64("requests", u.Requests), slog.Int64("retries", u.Retries), slog.Int64("failures", u.Failures),
		slog.Int64("images", u.Images), slog.Int64("uncounted", u.Uncounted),
		slog.Int64("prompt_tokens", u.PromptTokens), slog.Int64("completion_tokens", u.CompletionTokens),
		slog.Int64("image_tokens", u.ImageTokens), slog.Float64("cost", u.Cost), slog.Float64("assumed", u.Assumed),
	)
}

// ledger adds up usage and enforces the budget.
type ledger struct {
	price  Price
	budget float64 // 0 for none

	mu       sync.Mutex
	total    Usage  // without tokens, which are in spent
	spent    tokens // counted by the service
	assumed  tokens // estimated, for requests that it did not count
	reserved tokens // for running requests
	changed  chan struct{}
}

func newLedger(o *Options) *ledger {
	return &ledger{price: o.Prices[o.Model], budget: o.Budget, changed: make(chan struct{})}
}

func (l *ledger) usage() Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.total
	u.PromptTokens, u.CompletionTokens = l.spent.prompt, l.spent.completion
	u.CacheReadTokens, u.CacheWriteTokens, u.ImageTokens, u.ReasoningTokens = l.spent.cacheRead, l.spent.cacheWrite,
		l.spent.image, l.spent.reasoning
	u.Assumed = l.price.cost(l.assumed)
	u.Cost = l.price.cost(l.spent) + u.Assumed
	return u
}

// estimate is the highest cost of a request: the longest response, and a prompt that
// is written to the cache if that is more expensive.
func (l *ledger) estimate(prompt, completion int64) tokens {
	t := tokens{prompt: prompt, completion: completion}
	if l.price.CacheWrite > l.price.Prompt {
		t.cacheWrite = prompt
	}
	return t
}

// reserve reserves the estimate of a request in the budget. If the rest of the budget
// is too small, it waits for running requests, which may cost less than reserved, so
// that the decision does not depend on when they return.
func (l *ledger) reserve(ctx context.Context, estimate tokens) error {
	for {
		l.mu.Lock()
		sum := l.spent
		sum.add(l.assumed)
		done := l.price.cost(sum)
		sum.add(l.reserved)
		sum.add(estimate)
		if l.budget == 0 || l.price.cost(sum) <= l.budget {
			l.reserved.add(estimate)
			l.mu.Unlock()
			return nil
		}
		idle, changed := l.reserved == tokens{}, l.changed
		l.mu.Unlock()
		if idle {
			return fmt.Errorf("chat: %w: %.6g of %.6g spent, and the next request may cost %.6g", ErrBudget, done, l.budget,
				l.price.cost(estimate))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// bill is how a request counts towards usage.
type bill int

const (
	unsent  bill = iota // it was not sent
	free                // it was refused, or failed, at no cost
	lost                // its answer is missing; its estimate counts
	counted             // the service has counted its tokens
)

// commit replaces the reserved estimate of a request by its cost.
func (l *ledger) commit(estimate, used tokens, how bill, images int64, retry bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reserved.sub(estimate)
	if how != unsent {
		l.total.Requests++
		l.total.Images += images
		if retry {
			l.total.Retries++
		}
	}
	switch how {
	case lost:
		l.total.Uncounted++
		l.assumed.add(used)
	case counted:
		l.spent.add(used)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *ledger) failed() {
	l.mu.Lock()
	l.total.Failures++
	l.mu.Unlock()
}
