package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"vagen/env"
	"vagen/env/remote/internal/wire"
	"vagen/internal/clock"
	"vagen/internal/origin"
	"vagen/internal/silent"
	"vagen/internal/slots"
	"vagen/internal/unmade"
)

// Server hosts environments for clients of both protocols. It is an http.Handler and
// safe for concurrent use; calls of one environment run one at a time, in the order of
// their arrival.
//
// Besides the routes of the protocols it answers GET /metrics in the Prometheus
// text format. An environment that fails or panics affects only its own session.
// Close must be called at the end; Serve and ListenAndServe do so.
type Server struct {
	o       ServerOptions
	log     *slog.Logger
	slots   chan struct{} // nil without a limit
	bodies  slots.Slots   // of large requests
	quota   *quota
	lite    *sessions
	legacy  *sessions
	kinds   []string // kinds of environments that were requested, in order; protected by mu
	metrics *counters
	seeds   wire.Seeds
	routes  map[string]route // by path, which ends in a slash if an environment's name follows

	base   context.Context // parent of all calls' contexts; ends when Close stops waiting
	cancel context.CancelFunc
	sweep  sync.WaitGroup // the goroutine that closes idle sessions
	stop   chan struct{}
	pool   *pool // runs calls of environments

	mu       sync.Mutex
	draining bool
	work     sync.WaitGroup // calls of environments
}

// NewServer returns a server. It creates environments when clients request them.
func NewServer(o ServerOptions) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{o: o, log: silent.Log(o.Log), quota: &quota{limit: o.MaxSessions},
		metrics: newCounters(), stop: make(chan struct{}), bodies: slots.ForBodies()}
	if o.MaxInFlight > 0 {
		s.slots = make(chan struct{}, o.MaxInFlight)
	}
	s.lite, s.legacy = newSessions(s.quota), newSessions(s.quota)
	s.base, s.cancel = context.WithCancel(context.Background())
	s.pool = &pool{work: make(chan func()), idle: make(chan struct{}, maxIdle), stop: s.stop}
	s.route()
	if o.SessionTimeout > 0 || o.LegacyTimeout > 0 {
		s.sweep.Go(s.sweeper)
	}
	return s, nil
}

var errZero = unmade.Error("remote.Server", "NewServer")

// authorized checks the API key. Of several, the first one counts, as in the original.
func (s *Server) authorized(r *http.Request) bool {
	return s.o.APIKey == "" || origin.SameKey(cmp.Or(origin.Keys(r)...), s.o.APIKey)
}

// sweeper closes idle sessions periodically.
func (s *Server) sweeper() {
	tick := time.NewTicker(s.o.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.expire(s.lite, s.o.SessionTimeout)
			s.expire(s.legacy, s.o.LegacyTimeout)
		case <-s.stop:
			return
		}
	}
}

// expire closes the idle sessions of one protocol, except those with a running call.
// Each is closed on its own goroutine, so that one that hangs does not delay the others.
func (s *Server) expire(t *sessions, limit time.Duration) {
	if limit == 0 {
		return
	}
	for _, one := range t.idle(limit) {
		select {
		case one.turn <- struct{}{}:
		default:
			continue
		}
		if s.begin() != nil {
			<-one.turn
			return
		}
		go func() {
			defer s.end()
			defer func() { <-one.turn }()
			if err := s.closeSession(t, one, "idle"); err != nil {
				s.log.Warn("idle environment did not close", "session", one.id, "err", err)
			}
		}()
	}
}

// closeSession closes a locked session. The session is removed even if its environment
// fails to close.
func (s *Server) closeSession(t *sessions, one *session, why string) error {
	if one.closed {
		return nil
	}
	one.closed = true
	if t.drop(one) {
		s.metrics.closed(why)
		s.log.Debug("session closed", "session", one.id, "why", why)
	}
	return closeEnv(one.env)
}

// createEnv creates the environment of a session.
func (s *Server) createEnv(one *session, f env.Factory, config map[string]any) (err error) {
	if one.env, err = f(config); err != nil {
		return err
	}
	if one.env == nil {
		return errors.New("the factory returned no environment")
	}
	one.inform = informerFor(one.env)
	return nil
}

// countOpened counts and logs a new session.
func (s *Server) countOpened(one *session) {
	s.metrics.started.Add(1)
	s.log.Debug("session opened", "session", one.id)
}

// closeUnused closes an environment that belongs to no session.
func (s *Server) closeUnused(e env.Env) {
	if err := closeEnv(e); err != nil {
		s.log.Warn("environment did not close", "err", err)
	}
}

// closeEnv closes an environment, which may be nil; a panic is an error.
func closeEnv(e env.Env) (err error) {
	if e == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return e.Close()
}

// Close refuses new requests, waits for running calls and closes all environments.
// When ctx ends, it cancels the running calls, and the error gives the number of
// environments that could not be closed. Further calls return nil.
func (s *Server) Close(ctx context.Context) error {
	if s.stop == nil {
		return nil
	}
	s.mu.Lock()
	again := s.draining
	s.draining = true
	s.mu.Unlock()
	if again {
		return nil
	}
	defer s.cancel()
	close(s.stop)
	s.sweep.Wait()
	other := make(chan error, 1)
	go func(ctx context.Context) { other <- s.closeOther(ctx) }(ctx) // ctx changes below
	if clock.Join(ctx, &s.work) != nil {
		s.cancel() // ends calls that observe their contexts
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
	}
	return errors.Join(s.closeAll(ctx), <-other)
}

// closeOther closes the further protocol.
func (s *Server) closeOther(ctx context.Context) error {
	if s.o.Other == nil {
		return nil
	}
	return s.o.Other.Close(ctx)
}

// grace is how long Close waits for cancelled calls after its context has ended.
const grace = time.Second

// closeAll closes the environments of all sessions concurrently.
func (s *Server) closeAll(ctx context.Context) error {
	var closing sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	var left atomic.Int64 // environments not closed yet
	for _, t := range []*sessions{s.lite, s.legacy} {
		for _, one := range t.all() {
			left.Add(1)
			closing.Go(func() {
				select {
				case one.turn <- struct{}{}:
				case <-ctx.Done():
					return
				}
				defer left.Add(-1)
				if err := s.closeSession(t, one, "shutdown"); err != nil {
					mu.Lock()
					errs = append(errs, fmt.Errorf("session %s: %w", one.id, err))
					mu.Unlock()
				}
				<-one.turn
			})
		}
	}
	_ = clock.Join(ctx, &closing) // the number says it
	if n := left.Load(); n > 0 {
		return fmt.Errorf("remote: close: %d environments are still busy: %w", n, context.Cause(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remote: close: %w", err)
	}
	return nil
}
