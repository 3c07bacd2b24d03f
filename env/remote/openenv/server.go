package openenv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"

	"vagen/env"
	"vagen/env/remote"
	"vagen/env/remote/internal/wire"
	"vagen/internal/clock"
	"vagen/internal/silent"
	"vagen/internal/slots"
	"vagen/internal/unmade"
)

// Hosted is the environment of a Server.
type Hosted struct {
	Name, About string
	Make        env.Factory // makes the environment of each session, without options
}

func (h *Hosted) open() (env.Env, error) {
	e, err := h.Make(nil)
	if err == nil && e == nil {
		err = errors.New("Hosted.Make returned no environment")
	}
	return e, err
}

// Server hosts an environment for clients of OpenEnv. It is a remote.Protocol, and safe for
// concurrent use. Each session has an environment of its own; one that fails or panics affects
// only its session.
type Server struct {
	hosted Hosted
	o      remote.ServerOptions
	log    *slog.Logger
	mux    *http.ServeMux
	prompt string // system prompt
	seeds  wire.Seeds
	bodies slots.Slots // of large requests

	idle, base context.Context // of sessions that wait for a request, and of calls
	quit, stop context.CancelFunc
	mu         sync.Mutex
	open       atomic.Int64   // sessions
	work       sync.WaitGroup // sessions
}

var _ remote.Protocol = (*Server)(nil)

// NewServer returns a server. It makes the environment once for its system prompt. Of the options
// it uses MaxSessions, SessionTimeout, CallTimeout, ReadTimeout, WriteTimeout, Hosts, Images,
// Limits.Body, Seed and Log.
func NewServer(h Hosted, o remote.ServerOptions) (*Server, error) {
	s := &Server{hosted: h, o: o, log: silent.Log(o.Log), bodies: slots.ForBodies()}
	if h.Make == nil {
		return nil, errors.New("openenv: Hosted.Make is nil, must make the environment")
	}
	e, err := h.open()
	if err != nil {
		return nil, fmt.Errorf("openenv: %w", err)
	}
	system, err := e.System(context.Background())
	if err = errors.Join(err, e.Close()); err != nil {
		return nil, fmt.Errorf("openenv: system prompt: %w", err)
	}
	s.prompt = system.Text
	s.idle, s.quit = context.WithCancel(context.Background())
	s.base, s.stop = context.WithCancel(context.Background())
	s.route()
	return s, nil
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.mux == nil {
		http.Error(w, unmade.Error("openenv.Server", "NewServer").Error(), http.StatusInternalServerError)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Sessions returns the number of open sessions.
func (s *Server) Sessions() int { return int(s.open.Load()) }

// Close ends the sessions that wait for a request, and those with a running call after it. When
// ctx ends, it cancels these calls.
func (s *Server) Close(ctx context.Context) error {
	if s.mux == nil {
		return nil
	}
	s.mu.Lock()
	s.quit()
	s.mu.Unlock()
	defer s.stop()
	if clock.Join(ctx, &s.work) == nil {
		return nil
	}
	s.stop()
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	if clock.Join(late, &s.work) == nil {
		return nil
	}
	return fmt.Errorf("openenv: close: %d sessions are still busy: %w", s.Sessions(), context.Cause(ctx))
}

// reserve counts a session. The error is for its client.
func (s *Server) reserve() *fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch limit := s.o.MaxSessions; {
	case s.idle.Err() != nil:
		return &fault{Code: sessionError, Message: "the service is shutting down"}
	case limit > 0 && s.Sessions() >= limit:
		const full = "Server at capacity: %d/%d sessions active. Cannot accept new connections."
		return &fault{Code: capacityReached, Message: fmt.Sprintf(full, limit, limit), Active: limit, Max: limit}
	}
	s.open.Add(1)
	s.work.Add(1)
	return nil
}

func (s *Server) release() {
	s.open.Add(-1)
	s.work.Done()
}

// connect serves a WebSocket, which is one session.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{OriginPatterns: s.o.Hosts})
	if err != nil {
		s.log.Debug("no WebSocket", "from", r.RemoteAddr, "err", err)
		return
	}
	defer c.CloseNow() // after Close it does nothing
	c.SetReadLimit(s.o.Limits.Body)
	one := s.session(c)
	var refused *fault
	if id := r.URL.Query().Get("session_id"); id != "" { // of openenv/session/create, which is not served
		refused = &fault{Code: sessionError, Message: "Unknown session_id: " + clip(id)}
	} else if refused = s.reserve(); refused == nil {
		defer s.release()
	}
	defer one.free() // before release
	if refused != nil {
		s.log.Warn("session refused", "from", r.RemoteAddr, "code", refused.Code)
		one.refuse(refused)
		return
	}
	one.in = readFrames(c, &large{one.idle, s.bodies, s.o.ReadTimeout})
	if one.env, err = guarded(one, s.hosted.open); err != nil {
		one.refuse(&fault{Code: factoryError, Message: err.Error()})
		return
	}
	one.loop()
}
