package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"vagen/internal/clock"
	"vagen/internal/origin"
	"vagen/internal/retry"
	"vagen/internal/silent"
	"vagen/internal/unmade"
	"vagen/policy"
	"vagen/policy/chat"
	"vagen/reward/judge"
)

// Client asks a language model about claims. Its method Complete is a judge.Completer.
type Client struct {
	service judge.Service
	ask     judge.Completer // sends single prompts, once
	check   func(prompt, answer string) error
	cache   *cache // nil without a folder
	address string // of the service and the model, part of the cache's keys
	breaker breaker
	log     *slog.Logger

	backoff retry.Backoff

	mu     sync.Mutex
	paused time.Time           // the service asked to send nothing before
	logged map[Cause]time.Time // when a failure was last logged
}

// sampling is that of the newest VAGEN system: at most 512 tokens, the most likely ones.
var sampling = policy.Sampling{MaxTokens: 512}

var errNoBlock = errors.New("client: the block of the state reward is nil")

// New connects to the language model that a block names. It reads the key from the
// environment and opens the cache, but sends nothing. log receives failures; nil discards
// them.
func New(block *judge.StateReward, log *slog.Logger) (*Client, error) {
	if block == nil {
		return nil, errNoBlock
	}
	s := block.Service
	if s.Model != "" {
		return nil, errors.New("client: judge.model is a model of this process, which only a run, an evaluation and vagen judge open; " +
			"use judge_base_url and judge_model")
	}
	m, err := chat.New(options(block))
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c := newClient(s, metered(m), log)
	if s.KeyEnv != "" && origin.Unencrypted(block.JudgeURL) {
		c.log.Warn("the judge's key is sent without encryption", "judge_base_url", block.JudgeURL)
	}
	return c, c.open(block.JudgeURL + " " + block.JudgeModel)
}

// open opens the cache of a block, if it names one, for the answers of an address.
func (c *Client) open(address string) (err error) {
	if c.address = address; c.service.Cache == "" {
		return nil
	}
	if c.cache, err = openCache(c.service.Cache, int64(c.service.CacheMB)<<20); err != nil {
		return fmt.Errorf("client: judge.cache: %w", err)
	}
	return nil
}

// Over asks a policy of this process, which has the given identity for the cache, instead of the service of a block:
// once for each claim, the most likely tokens, at most Service.Concurrency claims in one call. The caller closes
// batches before the policy.
func Over(
	p policy.Policy, identity string, block *judge.StateReward, log *slog.Logger,
) (c *Client, batches *Batches, err error) {
	switch {
	case p == nil:
		return nil, nil, errors.New("client: the policy is nil")
	case block == nil:
		return nil, nil, errNoBlock
	case block.Service.Concurrency < 1:
		return nil, nil, fmt.Errorf("client: judge.concurrency is %d, must be at least 1", block.Service.Concurrency)
	}
	s := block.Service
	s.Retries, s.BreakerFailures = 0, 0 // another attempt would give the same answer
	batches = &Batches{policy: p, most: s.Concurrency}
	c = newClient(s, batches.Complete, log)
	return c, batches, c.open(identity)
}

// options returns those of the model of a block.
func options(block *judge.StateReward) chat.Options {
	s := block.Service
	o := chat.DefaultOptions(chat.OpenAI, block.JudgeModel)
	o.BaseURL, o.KeyEnv, o.Concurrency = block.JudgeURL, s.KeyEnv, s.Concurrency
	o.RequestsPerMinute, o.TokensPerMinute = s.RequestsPerMinute, s.TokensPerMinute
	o.Timeout = clock.Seconds(s.Timeout)
	o.Retries = 0 // retries are this package's, which also repeats answers of a wrong form
	return o
}

// KeyNames returns the environment variables in which New looks for the key that it sends to
// block.JudgeURL, the first that is set; nil if no key is sent.
func KeyNames(block *judge.StateReward) []string {
	if block == nil || block.Rules() != nil || block.Service.Model != "" {
		return nil
	}
	o := options(block)
	return o.KeyNames()
}

// metered returns a Completer of a model that counts tokens in the meter of its context.
func metered(p policy.Policy) judge.Completer {
	return func(ctx context.Context, prompts []string) (answers []string, errs []error, err error) {
		meter, _ := meterOf(ctx)
		own, used := policy.Meter(p)
		defer func() {
			u := used()
			meter.add(Usage{PromptTokens: u.PromptTokens, CompletionTokens: u.CompletionTokens})
		}()
		return policy.Ask(own, sampling)(ctx, prompts)
	}
}

func newClient(s judge.Service, ask judge.Completer, log *slog.Logger) *Client {
	return &Client{
		service: s, ask: ask, check: judge.CheckAnswer, log: silent.Log(log), logged: make(map[Cause]time.Time),
		breaker: breaker{failures: s.BreakerFailures, pause: clock.Seconds(s.BreakerPause), now: time.Now},
		backoff: retry.Doubling(time.Second/2, 8*time.Second),
	}
}

// Dial returns a function that connects as New does, for builtin.RegistryWith.
func Dial(log *slog.Logger) judge.Dial {
	return func(block *judge.StateReward) (judge.Completer, error) {
		c, err := New(block, log)
		if err != nil {
			return nil, err
		}
		return c.Complete, nil
	}
}

// Complete returns the answers to prompts in order. errs[i] is an *Error if there is no valid
// answer i. The error of the call is only that of a context that was cancelled: near the
// deadline of ctx, prompts without an answer are given up.
func (c *Client) Complete(ctx context.Context, prompts []string) (answers []string, errs []error, err error) {
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("client: %w", context.Cause(ctx))
	}
	if c.ask == nil {
		return nil, nil, unmade.Error("client.Client", "New or Over")
	}
	answers, errs = make([]string, len(prompts)), make([]error, len(prompts))
	meter, limited := meterOf(ctx)
	meter.add(Usage{Claims: len(prompts)})
	var open []int
	for i, p := range prompts {
		found := false
		if answers[i], found = c.cached(p); found {
			meter.add(Usage{Cached: 1})
		} else {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return answers, errs, nil
	}
	var limit time.Duration
	if limited {
		limit = clock.Seconds(c.service.StepBudget)
	}
	work, cancel := withoutLastTenth(ctx)
	defer cancel()
	work, done := meter.wait(work, limit)
	defer done()
	var wg sync.WaitGroup
	for _, i := range open {
		wg.Go(func() {
			var lack *Error
			if answers[i], lack = c.one(work, meter, prompts[i]); lack != nil {
				errs[i] = lack
				if ctx.Err() == nil {
					meter.add(Usage{Unscored: map[Cause]int{lack.Cause: 1}})
					c.warn(lack)
				}
			}
		})
	}
	wg.Wait()
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, nil, fmt.Errorf("client: %w", context.Cause(ctx))
	}
	return answers, errs, nil
}

// withoutLastTenth ends a context when nine tenths of the time to its deadline have passed, so
// that a claim without a score does not cost its episode.
func withoutLastTenth(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Until(end)/10*9)
}

// one returns a valid answer to a prompt.
func (c *Client) one(ctx context.Context, meter *Meter, prompt string) (string, *Error) {
	var last error
	var wait time.Duration
	pauses := c.backoff.Pauses(retry.Jitter(retry.Seed(prompt), 0))
	for attempt := 0; ; attempt++ {
		if lack := c.delay(ctx, wait, attempt, last); lack != nil {
			return "", lack
		}
		if !c.breaker.allow() {
			return "", &Error{Breaker, attempt, last}
		}
		answer, err := c.send(ctx, meter, prompt)
		if err != nil && ctx.Err() != nil {
			c.breaker.report(unknown)
			return "", ended(ctx, attempt+1, nil)
		}
		kind := c.report(err)
		if err == nil {
			c.keep(prompt, answer)
			return answer, nil
		}
		var again bool
		wait, again = pauses.Next(afterOf(err))
		if last = err; !again || !kind.retry || attempt >= c.service.Retries {
			return "", &Error{kind.cause, attempt + 1, err}
		}
	}
}

// send asks once and checks the answer.
func (c *Client) send(ctx context.Context, meter *Meter, prompt string) (string, error) {
	meter.add(Usage{Attempts: 1})
	answers, errs, err := c.ask(ctx, []string{prompt})
	switch {
	case err != nil:
		return "", err
	case len(answers) != 1 || len(errs) != 1:
		return "", fmt.Errorf("client: %w: %d answers and %d errors for one prompt", judge.ErrAnswer, len(answers), len(errs))
	case errs[0] != nil:
		return "", errs[0]
	}
	return answers[0], c.check(prompt, answers[0])
}

// report tells the breaker and the log how an attempt ended, and returns what its error means.
func (c *Client) report(err error) class {
	kind, r := class{}, worked
	if err != nil {
		if kind = classify(err); kind.down {
			r = failed
		} else if kind.cause != Answer {
			r = unknown
		}
	}
	if kind.cause == Busy {
		c.pause(afterOf(err))
	}
	switch opened, closed := c.breaker.report(r); {
	case opened:
		c.log.Warn("the judge does not answer; claims have no score until it does", "failures in a row",
			c.service.BreakerFailures,
			"next test in", c.breaker.pause, "err", err)
	case closed:
		c.log.Info("the judge answers again")
	}
	return kind
}

// afterOf returns the delay that the service asks for in an error.
func afterOf(err error) time.Duration {
	if refusal, ok := errors.AsType[*chat.Error](err); ok {
		return refusal.RetryAfter
	}
	return 0
}

// ended is the error of a prompt whose context ended.
func ended(ctx context.Context, attempts int, last error) *Error {
	if errors.Is(context.Cause(ctx), errBudget) {
		return &Error{Budget, attempts, last}
	}
	return &Error{Timeout, attempts, last}
}

// pause delays the requests of all prompts.
func (c *Client) pause(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until := time.Now().Add(min(d, retry.Longest)); until.After(c.paused) {
		c.paused = until
	}
}

// delay waits at least d before another attempt, and as long as the service asks for. It returns an error if ctx
// ends meanwhile, at once if it is known to.
func (c *Client) delay(ctx context.Context, d time.Duration, attempts int, last error) *Error {
	c.mu.Lock()
	paused := c.paused
	c.mu.Unlock()
	if end, ok := ctx.Deadline(); ok && end.Before(paused) && ctx.Err() == nil {
		return &Error{Busy, attempts, last}
	}
	if clock.Wait(ctx, max(d, time.Until(paused))) != nil {
		return ended(ctx, attempts, last)
	}
	return nil
}

// logEvery is the shortest time between two logged failures of one cause.
const logEvery = 30 * time.Second

// warn logs a claim without a score, unless one of the same cause was logged shortly before.
func (c *Client) warn(err *Error) {
	c.mu.Lock()
	now := time.Now()
	recent := now.Sub(c.logged[err.Cause]) < logEvery
	if !recent {
		c.logged[err.Cause] = now
	}
	c.mu.Unlock()
	if !recent {
		c.log.Warn("a claim has no score; more of the same cause are not logged for a while", "cause", string(err.Cause),
			"err", err)
	}
}

// cached returns the answer to a prompt from the folder of answers.
func (c *Client) cached(prompt string) (string, bool) {
	if c.cache == nil {
		return "", false
	}
	answer, ok := c.cache.get(c.key(prompt))
	if !ok || c.check(prompt, answer) != nil {
		return "", false
	}
	return answer, true
}

// keep writes a valid answer to the folder. A failure is logged; the answer is still used.
func (c *Client) keep(prompt, answer string) {
	if c.cache == nil {
		return
	}
	if err := c.cache.put(c.key(prompt), answer); err != nil {
		c.warn(&Error{Cause: "cache", Err: err})
	}
}

func (c *Client) key(prompt string) string {
	return keyOf(c.address, fmt.Sprintf("%+v", sampling), prompt)
}
