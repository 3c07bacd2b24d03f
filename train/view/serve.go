package view

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"vagen/internal/origin"
)

// ErrKeyNeeded means that other machines can reach an address that is served without a
// key.
var ErrKeyNeeded = errors.New("a key is needed")

// stopTime limits the time for answers in progress when a server stops.
const stopTime = 2 * time.Second

// Serve serves a listener until ctx ends, and closes it. Without a key it serves only
// loopback addresses and Unix sockets; for others the error wraps ErrKeyNeeded.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if ln == nil {
		return errors.New("view: serve: the listener is nil")
	}
	if s.Key == "" && !origin.Local(ln.Addr()) {
		err := fmt.Errorf("view: address: %v, which other machines can reach: %w; set one or listen at 127.0.0.1", ln.Addr(),
			ErrKeyNeeded)
		return errors.Join(err, ln.Close())
	}
	h, err := s.handler()
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	// Requests end with ctx, those that listen to events included.
	requests, end := context.WithCancel(ctx)
	defer end()
	server := origin.Server(h, h.log)
	server.ReadTimeout, server.WriteTimeout = 30*time.Second, 5*time.Minute
	server.BaseContext = func(net.Listener) context.Context { return requests }
	h.log.Info("serving the page", "address", ln.Addr().String(), "runs", len(s.Runs))
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	select {
	case err = <-failed:
		return fmt.Errorf("view: serve: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if err = server.Shutdown(stop); err != nil { // answers that do not end
		err = server.Close()
	}
	<-failed
	if err != nil {
		return fmt.Errorf("view: shutdown: %w", err)
	}
	return nil
}
