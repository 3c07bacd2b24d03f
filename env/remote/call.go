package remote

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Errors of calls that did not run or did not finish.
var (
	errDraining     = errors.New("the service is shutting down")
	errNoSlot       = errors.New("server busy")
	errTimeout      = errors.New("did not finish in time")
	errDisconnected = errors.New("the client went away")
	errEnded        = errors.New("the session has ended")
)

// admit waits for one of the slots for concurrent requests. The caller must release
// it; releasing it more than once is allowed.
func (s *Server) admit(ctx context.Context) (release func(), err error) {
	if s.slots == nil {
		return func() {}, nil
	}
	timer := time.NewTimer(s.o.AdmitTimeout)
	defer timer.Stop()
	select {
	case s.slots <- struct{}{}:
	case <-timer.C:
		s.metrics.refused("busy")
		return nil, errNoSlot
	case <-ctx.Done():
		return nil, errDisconnected
	}
	return sync.OnceFunc(func() { <-s.slots }), nil
}

// begin counts a call that Close waits for. end must be called after it.
func (s *Server) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return errDraining
	}
	s.work.Add(1)
	return nil
}

func (s *Server) end() { s.work.Done() }

// callWithTimeout runs f on its own goroutine, with a time limit of CallTimeout, and converts
// its panic to an error. ctx is the request's. When ctx ends, callWithTimeout returns, but f
// continues: interrupting a step would leave the environment in an unknown state.
// after runs when f has returned; release, which may run more than once, runs at
// CallTimeout at the latest.
func callWithTimeout[T any](
	ctx context.Context, s *Server, what string, release func(), f func(context.Context) (T, error), after func(),
) (T, error) {
	var zero T
	if err := s.begin(); err != nil {
		after()
		release()
		return zero, err
	}
	call, cancel := context.WithTimeout(s.base, s.o.CallTimeout)
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	s.pool.run(func() {
		defer s.end()
		defer cancel()
		var a answer
		a.value, a.err = recoverPanic(call, s, what, f)
		after() // before the answer, so that the session and the slot are free when it is received
		release()
		done <- a
	})
	var a answer
	select {
	case a = <-done:
	case <-call.Done():
		select {
		case a = <-done: // f has just returned, which also ends its context
		default:
			a.err = call.Err()
			release()
		}
	case <-ctx.Done():
		context.AfterFunc(call, release)
		return zero, errDisconnected
	}
	switch {
	case a.err == nil:
		return a.value, nil
	case errors.Is(call.Err(), context.DeadlineExceeded):
		return zero, s.timeoutError(what)
	case s.base.Err() != nil && errors.Is(a.err, context.Canceled):
		return zero, errDraining
	}
	return zero, a.err
}

// recoverPanic runs f, measures its time and converts its panic to an error.
func recoverPanic[T any](
	ctx context.Context, s *Server, what string, f func(context.Context) (T, error),
) (v T, err error) {
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			s.metrics.panics.Add(1)
			s.log.Error("environment panicked", "call", what, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%v", p)
		}
		s.metrics.called(what, time.Since(start), err != nil)
	}()
	return f(ctx)
}

func (s *Server) timeoutError(what string) error {
	return fmt.Errorf("%s %w: the limit is %v", what, errTimeout, s.o.CallTimeout)
}

// lock locks the session after its earlier calls have ended.
func (s *Server) lock(ctx context.Context, one *session, what string) error {
	select {
	case one.turn <- struct{}{}:
		return nil
	default:
	}
	wait, cancel := context.WithTimeout(s.base, s.o.CallTimeout)
	defer cancel()
	select {
	case one.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errDisconnected
	case <-wait.Done():
		if s.base.Err() != nil {
			return errDraining
		}
		return s.timeoutError("the call before this " + what)
	}
}

// perform runs f, one call of a session, after its earlier calls have ended.
func perform[T any](ctx context.Context, s *Server, one *session, what string, release func(),
	f func(context.Context) (T, error)) (T, error) {
	var zero T
	if err := s.lock(ctx, one, what); err != nil {
		release()
		return zero, err
	}
	if one.closed {
		<-one.turn
		release()
		return zero, errEnded
	}
	one.touch()
	return callWithTimeout(ctx, s, what, release, f, func() {
		one.touch()
		<-one.turn
	})
}
