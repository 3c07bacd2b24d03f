package remote

import (
	"context"
	"errors"
	"net/http"

	"vagen/env/remote/hosts"
	"vagen/internal/origin"
)

// hostsOf returns the pool of clients with a transport.
func hostsOf(t http.RoundTripper) *hosts.Pool {
	if t == nil {
		return hosts.Process()
	}
	return hosts.New(hosts.DefaultOptions())
}

// client returns the HTTP client for a service.
func (s *sender) client(to *hosts.Host) *http.Client {
	t := s.o.Transport
	if t == nil {
		t = to.Transport(s.o.KeepIdle)
	}
	// The key must not follow a redirect to another host, and the original client follows
	// none either.
	return origin.Client(origin.None, t)
}

// probe asks whether a service answers.
func (s *sender) probe(ctx context.Context, to *hosts.Host) error {
	q := request{method: http.MethodGet, path: "/health", read: func(string, []byte) error { return nil }}
	_, err := s.exchange(ctx, to, q)
	if err == nil || err.Status != 0 && !errors.Is(err, ErrRemote) {
		return nil
	}
	return err
}
