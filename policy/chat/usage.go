package chat

import (
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

// cost is what tokens cost, computed from whole numbers: it does not depend on
// the order in which they were spent.
func (p Price) cost(t tokens) float64 {
	read, write := p.CacheRead, p.CacheWrite
	if read == 0 {
		read = p.Prompt
	}
	if write == 0 {
		write = p.Prompt
	}
	plain := max(0, t.prompt-t.cacheRead-t.cacheWrite)
	return (float64(plain)*p.Prompt + float64(t.cacheRead)*read + float64(t.cacheWrite)*write + float64(t.completion)*p.Completion) / 1e6
}

// Usage says what a Model has sent and spent so far.
type Usage struct {
	Requests  int64 // sent, retries included
	Retries   int64
	Failures  int64 // prompts without an answer
	Images    int64 // pictures sent, each time they were
	Uncounted int64 // requests of which the service did not tell the tokens, lost answers included

	// As the service counted them.
	PromptTokens     int64
	CacheReadTokens  int64 // of the prompt, read from the service's cache
	CacheWriteTokens int64 // of the prompt, written to it
	ImageTokens      int64 // of the prompt, where the service says
	CompletionTokens int64
	ReasoningTokens  int64 // of the completion, where the service says

	Cost    float64 // by Options.Prices; 0 without a price
	Assumed float64 // of Cost, for uncounted requests at their estimate
}

// LogValue implements slog.LogValuer.
func (u Usage) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int64("requests", u.Requests), slog.Int64("retries", u.Retries), slog.Int64("failures", u.Failures),
		slog.Int64("images", u.Images), slog.Int64("uncounted", u.Uncounted),
		slog.Int64("prompt_tokens", u.PromptTokens), slog.Int64("completion_tokens", u.CompletionTokens),
		slog.Int64("image_tokens", u.ImageTokens), slog.Float64("cost", u.Cost), slog.Float64("assumed", u.Assumed),
	)
}

// ledger keeps account and the budget.
type ledger struct {
	price  Price
	budget float64 // 0 for none

	mu       sync.Mutex
	total    Usage  // of which the tokens are in spent
	spent    tokens // counted by the service
	assumed  tokens // for requests that it did not count
	reserved tokens // for requests on their way
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
	u.CacheReadTokens, u.CacheWriteTokens, u.ImageTokens, u.ReasoningTokens = l.spent.cacheRead, l.spent.cacheWrite, l.spent.image, l.spent.reasoning
	u.Assumed = l.price.cost(l.assumed)
	u.Cost = l.price.cost(l.spent) + u.Assumed
	return u
}

// estimate is the most that a request may cost: the longest response, and a
// prompt that goes to the cache where that is dearer.
func (l *ledger) estimate(prompt, completion int64) tokens {
	t := tokens{prompt: prompt, completion: completion}
	if l.price.CacheWrite > l.price.Prompt {
		t.cacheWrite = prompt
	}
	return t
}

// reserve takes the estimate of a request out of the budget. While requests are
// on their way, which may turn out cheaper than reserved, it waits for them: the
// decision does not depend on when they return.
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
			return fmt.Errorf("chat: %w: %.6g of %.6g, and the next request may cost %.6g", ErrBudget, done, l.budget, l.price.cost(estimate))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// bill is how a request is accounted for.
type bill int

const (
	unsent  bill = iota // it was not sent
	free                // it was refused, or failed, at no cost
	lost                // it may have cost what was estimated
	counted             // the service has counted
)

// settle replaces the estimate of a request by what it has cost.
func (l *ledger) settle(estimate, used tokens, how bill, images int64, retry bool) {
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
