package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vagen/internal/retry"
)

// send requests a response until a server delivers one that passes all checks. preferred,
// which may be nil, is tried first. It returns the server that answered.
func (f *Fleet) send(ctx context.Context, r *request, preferred *server, key uint64) (*response, *server, error) {
	var avoid *server
	pauses := retry.Doubling(50*time.Millisecond, 5*time.Second).Pauses(retry.Jitter(key, 0))
	outdated := 0 // attempts that failed because a server did not have the current weights
	for attempt := 1; ; attempt++ {
		s, err := f.acquire(ctx, preferred, avoid, key)
		if err != nil {
			return nil, nil, err
		}
		f.count.requests.Add(1)
		if attempt > 1 {
			f.count.retries.Add(1)
		}
		a, err := f.attempt(ctx, s, r)
		mixed := err != nil && a != nil // the response is usable, the server is not
		if ctx.Err() != nil {
			f.release(s, nil)
			return nil, nil, context.Cause(ctx)
		}
		f.release(s, err)
		if err == nil || mixed && f.opts.Mixed != MixedDrop {
			f.count.responses.Add(1)
			return a, s, nil
		}
		f.count.failures.Add(1)
		if fatal(err) || errors.Is(err, ErrRefused) {
			return nil, nil, err
		}
		if stale(err) && outdated < staleAttempts*f.opts.Attempts {
			outdated++
		}
		if attempt-outdated >= f.opts.Attempts || afterOf(err) > retry.Longest {
			f.count.lost.Add(1)
			return nil, nil, fmt.Errorf("engine: no response after %d attempts: %w", attempt, err)
		}
		f.log.Debug("request failed, retrying", "server", s.base, "attempt", attempt, "of", f.opts.Attempts, "err", err)
		avoid = s
		if err := pauses.Wait(ctx); err != nil { // the server itself rests as long as it asks
			return nil, nil, err
		}
	}
}

// staleAttempts times Options.Attempts is how often a request may meet a server without the
// current weights: such a server gets them before it is used again, so that the request is
// not to blame.
const staleAttempts = 4

// attempt requests a response once. If it returns both a response and an error, other
// weights wrote the response.
func (f *Fleet) attempt(ctx context.Context, s *server, r *request) (*response, error) {
	r.id = f.nextID()
	within, cancel := context.WithTimeoutCause(ctx, f.opts.Timeout, fmt.Errorf("no response within %v", f.opts.Timeout))
	defer cancel()
	a, err := f.api.generate(within, s.base, r)
	if within.Err() != nil { // the server may still work on it
		f.abort(ctx, s, r.id)
	}
	if err != nil {
		if errors.Is(err, ErrMissing) && !r.lora {
			err = fmt.Errorf("%w: %v", ErrServer, err) // the base model is gone: not a matter of weights
		}
		return nil, err
	}
	fail := func(kind error, cause error) error {
		return &serverError{server: s.base, call: "generate", kind: kind, cause: cause}
	}
	if a.aborted {
		return nil, fail(ErrAborted, fmt.Errorf("after %d tokens", len(a.tokens)))
	}
	if err := r.checkPrompt(a); err != nil {
		return nil, fail(ErrPrompt, err)
	}
	if err := r.check(a); err != nil {
		return nil, fail(ErrProtocol, err)
	}
	want := f.base
	if f.current != nil && !f.current.Adapter {
		want = f.current.Name
	}
	if n := a.foreign(want); n > 0 {
		f.count.mixed.Add(1)
		f.count.foreign.Add(int64(n))
		return a, fail(ErrVersion, fmt.Errorf("%d of %d tokens, %v, the current version is %s", n, len(a.tokens), a.versions,
			want))
	}
	return a, nil
}

// abort stops a request on its server; that it fails does not matter, because the closed
// connection ends the request, too.
func (f *Fleet) abort(ctx context.Context, s *server, id string) {
	f.count.aborts.Add(1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	if err := f.api.abort(ctx, s.base, id); err != nil {
		f.log.Debug("request could not be aborted", "server", s.base, "err", err)
	}
}

// abortTimeout limits the call that aborts a request.
const abortTimeout = 5 * time.Second
