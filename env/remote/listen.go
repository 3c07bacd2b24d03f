package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// ListenAndServe serves at a TCP address such as "127.0.0.1:8000" until ctx ends,
// and closes the server then; see Serve.
func (s *Server) ListenAndServe(ctx context.Context, addr string) error {
	var l net.ListenConfig
	ln, err := l.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("remote: %w", errors.Join(err, s.Close(ctx)))
	}
	return s.Serve(ctx, ln)
}

// Serve serves a listener until ctx ends. Then it stops to accept, lets running
// calls finish and closes all environments, for which ServerOptions.DrainTimeout
// is allowed, and returns nil if nothing was cut off. The listener is closed and
// the server can't be used any more, whatever the outcome.
//
// Without a key only listeners are served that no other machine can reach:
// loopback addresses and Unix sockets. The error wraps ErrKeyNeeded for others.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if s.o.APIKey == "" && !local(ln.Addr()) {
		err := fmt.Errorf("remote: listening at %s, which other machines can reach: %w; set one or listen at 127.0.0.1", ln.Addr(), ErrKeyNeeded)
		return errors.Join(err, ln.Close(), s.Close(ctx))
	}
	h := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(ln) }()
	s.log.Info("serving environments", "address", ln.Addr().String(), "lite", s.o.Lite != nil, "legacy", s.o.Legacy != nil)
	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("remote: serve: %w", err)
		failed <- nil
	case <-ctx.Done():
	}
	// ctx is over; what is left to do has its own limit.
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.DrainTimeout)
	defer cancel()
	s.log.Info("shutting down", "sessions", s.lite.len()+s.legacy.len())
	closing := make(chan error, 1)
	go func() { closing <- s.Close(drain) }()
	down := h.Shutdown(drain)
	if down != nil { // connections that won't end
		down = fmt.Errorf("remote: shutdown: %w", errors.Join(down, h.Close()))
	}
	<-failed
	return errors.Join(err, down, <-closing)
}

// local reports whether only this machine can reach an address.
func local(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}
