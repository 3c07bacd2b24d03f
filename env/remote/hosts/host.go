package hosts

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Host is one service.
type Host struct {
	url  *url.URL
	name string
	keep atomic.Int64 // seconds, see KeepsIdle

	// Guarded by Pool.mu.
	sessions int
	refusals int // openings in a row that failed
	silent   int // requests in a row without an answer
	ejected  bool
	pauses   int // pauses in a row
	due      time.Time
	probing  bool
}

// load orders the services for new sessions.
func (h *Host) load() int { return h.sessions + h.refusals }

// Name returns the base URL without a password.
func (h *Host) Name() string { return h.name }

// Request returns a request to a path below the base URL.
func (h *Host) Request(ctx context.Context, method, path string, body []byte) *http.Request {
	var u url.URL // of a zero value
	if h.url != nil {
		u = *h.url
	}
	u.Path += path
	if u.RawPath != "" {
		u.RawPath += path
	}
	r := &http.Request{
		Method: method, URL: &u, Host: u.Host, Header: http.Header{},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
	}
	if len(body) > 0 {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return r.WithContext(ctx)
}

// Heard reads the header Keep-Alive of an answer.
func (h *Host) Heard(head http.Header) {
	value := head.Get("Keep-Alive")
	if value == "" {
		return
	}
	for part := range strings.SplitSeq(value, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(part), "=")
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil && strings.EqualFold(name, "timeout") && n >= 0 &&
			n < 1e6 {
			h.keep.Store(int64(n))
		}
	}
}

// KeepsIdle returns how long the service keeps idle connections, as it says in the header
// Keep-Alive; 0 is unknown.
func (h *Host) KeepsIdle() time.Duration { return time.Duration(h.keep.Load()) * time.Second }
