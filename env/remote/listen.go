package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"vagen/internal/origin"
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
	switch {
	case ln == nil:
		return errors.Join(errors.New("remote: serve: the listener is nil"), s.Close(ctx))
	case s.stop == nil:
		return errors.Join(errZero, ln.Close())
	}
	if s.o.APIKey == "" && !origin.Local(ln.Addr()) {
		err := fmt.Errorf("remote: listen at %s, which other machines can reach: %w; set one or listen at 127.0.0.1",
			ln.Addr(), ErrKeyNeeded)
		return errors.Join(err, ln.Close(), s.Close(ctx))
	}
	h := origin.Server(announceIdle(s), s.log)
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(ln) }()
	s.log.Info("serving environments", "address", ln.Addr().String(), "lite", s.o.Lite != nil, "legacy", s.o.Legacy != nil,
		"other", s.o.Other != nil)
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

// announceIdle adds the header Keep-Alive, so that clients need not close idle connections
// earlier than necessary.
func announceIdle(h http.Handler) http.Handler {
	value := []string{fmt.Sprintf("timeout=%d", origin.IdleTimeout/time.Second)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 {
			w.Header()["Keep-Alive"] = value
		}
		h.ServeHTTP(w, r)
	})
}
