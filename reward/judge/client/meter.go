package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Meter counts the claims of a training step, or of anything else, and the time during which
// a judge was waited for. It is safe for concurrent use; the zero value is ready.
type Meter struct {
	whole *Meter // that this one is a part of, nil for none

	mu      sync.Mutex
	usage   Usage
	waiting int       // calls that wait now
	since   time.Time // since when there are some
}

// Usage is what a Meter has counted.
type Usage struct {
	Claims   int `json:"claims"`   // that a judge was asked about
	Cached   int `json:"cached"`   // of them, answered from the folder of answers
	Attempts int `json:"attempts"` // requests that were sent
	// PromptTokens and CompletionTokens are those of all answers, also of ones that cannot be
	// used, as far as the service counts them.
	PromptTokens     int64         `json:"prompt_tokens"`
	CompletionTokens int64         `json:"completion_tokens"`
	Unscored         map[Cause]int `json:"unscored"` // claims without a score
	// Waited is the time during which at least one claim waited for a judge.
	Waited time.Duration `json:"waited_ns"`
}

// Missing returns the number of claims without a score.
func (u Usage) Missing() int {
	n := 0
	for _, k := range u.Unscored {
		n += k
	}
	return n
}

// Write writes the counts as metrics under a prefix, nothing without claims:
//
//	claims             claims that a judge was asked about
//	unscored           share of them without a score
//	unscored/<cause>   number of them, by cause
//	cached             number that were answered from the folder of answers
//	prompt_tokens      tokens that the judge read, and
//	completion_tokens  wrote, as far as its service counts them
//
// and, without the prefix, time/judge: the seconds during which a judge was waited for.
func (u Usage) Write(m map[string]float64, prefix string) {
	if u.Claims == 0 || m == nil {
		return
	}
	m[prefix+"claims"], m[prefix+"cached"] = float64(u.Claims), float64(u.Cached)
	m[prefix+"unscored"], m["time/judge"] = float64(u.Missing())/float64(u.Claims), u.Waited.Seconds()
	m[prefix+"prompt_tokens"], m[prefix+"completion_tokens"] = float64(u.PromptTokens), float64(u.CompletionTokens)
	for cause, n := range u.Unscored {
		m[prefix+"unscored/"+string(cause)] = float64(n)
	}
}

type meterKey struct{}

// WithMeter returns a context whose calls of clients count in the returned meter, instead of
// another one that ctx may have. Their limit on time, Service.StepBudget, is that of the
// meter's whole life.
func WithMeter(ctx context.Context) (context.Context, *Meter) {
	m := new(Meter)
	return context.WithValue(ctx, meterKey{}, m), m
}

// WithPart returns a context whose calls of clients count in the returned meter and in whole,
// whose life limits their time.
func WithPart(ctx context.Context, whole *Meter) (context.Context, *Meter) {
	m := &Meter{whole: whole}
	return context.WithValue(ctx, meterKey{}, m), m
}

// Add adds what another process has counted to the meter of a context. Without one it does
// nothing. The times of waiting are added, although they may have overlapped.
func Add(ctx context.Context, u Usage) {
	m, _ := meterOf(ctx)
	m.add(u)
}

// ErrUsage means that numbers cannot be a Usage.
var ErrUsage = errors.New("bad usage of a judge")

// Check returns an error that wraps ErrUsage if u cannot be what a Meter has counted.
func (u Usage) Check() error {
	const most = 1 << 40
	n := 0
	for cause, k := range u.Unscored {
		if !slices.Contains(Causes(), cause) || k < 0 || k > most {
			return fmt.Errorf("client: %w: %d claims without a score of cause %q: causes are %q, numbers must not be negative",
				ErrUsage, k, cause, Causes())
		}
		n += k
	}
	if u.PromptTokens < 0 || u.PromptTokens > most || u.CompletionTokens < 0 || u.CompletionTokens > most {
		return fmt.Errorf("client: %w: %d prompt tokens and %d completion tokens, must be in [0, %d]", ErrUsage,
			u.PromptTokens, u.CompletionTokens, most)
	}
	if u.Claims < 0 || u.Claims > most || u.Attempts < 0 || u.Attempts > most || u.Cached < 0 || u.Cached+n > u.Claims ||
		u.Waited < 0 || u.Waited > 1000*time.Hour {
		return fmt.Errorf("client: %w: %d claims, %d of them cached and %d without a score, %d attempts, waited %v: numbers must not be negative, and claims not fewer than their parts",
			ErrUsage, u.Claims, u.Cached, n, u.Attempts, u.Waited)
	}
	return nil
}

// WithBudget is WithMeter without the meter: a context whose calls of clients have a limit of
// their own on time.
func WithBudget(ctx context.Context) context.Context {
	ctx, _ = WithMeter(ctx)
	return ctx
}

// meterOf returns the meter of a context, a new one without a limit if it has none.
func meterOf(ctx context.Context) (m *Meter, limited bool) {
	if m, ok := ctx.Value(meterKey{}).(*Meter); ok {
		return m, true
	}
	return new(Meter), false
}

// Usage returns what has been counted so far.
func (m *Meter) Usage() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.usage
	u.Waited = m.waited()
	if u.Unscored = maps.Clone(u.Unscored); u.Unscored == nil {
		u.Unscored = map[Cause]int{}
	}
	return u
}

func (m *Meter) waited() time.Duration {
	if m.waiting == 0 {
		return m.usage.Waited
	}
	return m.usage.Waited + time.Since(m.since)
}

func (m *Meter) add(u Usage) {
	m.mu.Lock()
	sum := &m.usage
	sum.Claims += u.Claims
	sum.Cached += u.Cached
	sum.Attempts += u.Attempts
	sum.PromptTokens += u.PromptTokens
	sum.CompletionTokens += u.CompletionTokens
	sum.Waited += u.Waited
	if sum.Unscored == nil {
		sum.Unscored = map[Cause]int{}
	}
	for cause, n := range u.Unscored {
		sum.Unscored[cause] += n
	}
	m.mu.Unlock()
	if m.whole != nil {
		m.whole.add(u)
	}
}

// errBudget is the cause of a context that ended because a step's time was used up.
var errBudget = errors.New("the time of the step for its judge is used up")

// wait begins to wait for a judge. The returned context ends, with errBudget as its cause,
// when the time of all waiting exceeds the limit; 0 is none. done ends the wait.
func (m *Meter) wait(ctx context.Context, limit time.Duration) (within context.Context, done func()) {
	if m.whole != nil {
		whole := func() {}
		ctx, whole = m.whole.wait(ctx, limit)
		limit = 0 // a part waits no longer than the whole
		defer func() {
			part := done
			done = func() { part(); whole() }
		}()
	}
	m.mu.Lock()
	if m.waiting == 0 {
		m.since = time.Now()
	}
	m.waiting++
	left := limit - m.waited()
	m.mu.Unlock()
	cancel := func() {}
	if limit > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, left, errBudget)
	}
	return ctx, func() {
		cancel()
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.waiting--; m.waiting == 0 {
			m.usage.Waited += time.Since(m.since)
		}
	}
}
