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

// ListenAndServe serves at a TCP address such as "127.0.0.1:8000" until ctx ends, and
// then closes the server; see Serve.
func (s *Server) ListenAndServe(ctx context.Context, addr string) error {
	var l net.ListenConfig
	ln, err := l.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("remote: %w", errors.Join(err, s.Close(ctx)))
	}
	return s.Serve(ctx, ln)
}

// Serve serves a listener until ctx ends. Then it accepts no more connections, lets
// running calls finish and closes all environments, within ServerOptions.DrainTimeout.
// It returns nil if all of them finished in time. In every case the listener is closed
// and the server cannot be used again.
//
// A server without an APIKey serves only loopback addresses and Unix sockets; for
// others the error wraps ErrKeyNeeded.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if s.o.APIKey == "" && !local(ln.Addr()) {
		err := fmt.Errorf("remote: listen at %s, which other machines can reach: %w; set one or listen at 127.0.0.1", ln.Addr(), ErrKeyNeeded)
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
	// ctx has ended; the shutdown has its own time limit.
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.DrainTimeout)
	defer cancel()
	s.log.Info("shutting down", "sessions", s.lite.len()+s.legacy.len())
	closing := make(chan error, 1)
	go func() { closing <- s.Close(drain) }()
	down := h.Shutdown(drain)
	if down != nil { // connections that did not end in time
		down = fmt.Errorf("remote: shutdown: %w", errors.Join(down, h.Close()))
	}
	<-failed
	return errors.Join(err, down, <-closing)
}

// local reports whether an address can be reached from this machine only.
func local(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}
