package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"vagen/env/remote/internal/pyjson"
)

// defaultTransport is shared by all clients. Uvicorn closes idle connections after 5 s;
// closing them earlier here avoids sending a request on a connection that the service
// is closing.
var defaultTransport http.RoundTripper = &http.Transport{
	Proxy:                 http.ProxyFromEnvironment,
	DialContext:           (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
	TLSHandshakeTimeout:   30 * time.Second,
	MaxIdleConnsPerHost:   256,
	IdleConnTimeout:       4 * time.Second,
	ExpectContinueTimeout: time.Second,
}

// sender sends the requests of one client and retries them where that is allowed.
type sender struct {
	o        ClientOptions
	http     http.Client
	redacted []string // URLs without passwords, for messages and logs
	current  int      // index of the URL in use
	log      *slog.Logger
}

func newSender(o ClientOptions) (*sender, error) {
	o.URLs = trimURLs(o.URLs)
	if o.Config == nil {
		o.Config = map[string]any{}
	}
	o.Config = integral(o.Config).(map[string]any)
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &sender{o: o, log: o.Log}
	s.http.Transport = o.Transport
	if o.Transport == nil {
		s.http.Transport = defaultTransport
	}
	// The key must not follow a redirection to another host, and the original
	// client follows none either.
	s.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if o.Jitter == nil {
		s.o.Jitter = rand.New(rand.NewPCG(0, 0)).Float64
	}
	for _, raw := range o.URLs {
		u, err := url.Parse(raw)
		if err != nil {
			return nil, err // Validate has parsed it
		}
		s.redacted = append(s.redacted, u.Redacted())
	}
	return s, nil
}

// request is one request and the conditions of its retries.
type request struct {
	method, path string
	what         string // the call, for messages
	kind         string // Content-Type
	body         []byte
	opens        bool // it opens a session, so any URL may be used
	repeatable   bool // repeating it does not change the episode
	never        bool // it must not be repeated
	read         func(kind string, body []byte) error
}

// progress is how far a failed request got.
type progress int

const (
	refused progress = iota // the service did not process it
	failed                  // the service processed or rejected it; a retry would fail again
	unclear                 // it is not known whether the service processed it
)

// send sends a request, retries it while that is allowed and may succeed, and reads
// the answer. Errors are *Error or wrap that of ctx. The progress is the largest of all
// attempts.
func (s *sender) send(ctx context.Context, q request) (progress, error) {
	worst := refused
	var last *Error
	for attempt := 0; ; attempt++ {
		i := s.pick(q, attempt)
		what, err := s.attempt(ctx, i, q)
		if err == nil {
			if i != s.current {
				s.log.Info("switching to another service", "url", s.redacted[i])
			}
			s.current = i
			return refused, nil
		}
		worst = max(worst, what)
		if ctx.Err() != nil {
			return worst, &Error{URL: s.redacted[i], Route: q.route(), Err: context.Cause(ctx)}
		}
		if attempt >= s.o.Retries || !s.repeats(q, what, err, last) {
			return worst, err
		}
		last = err
		wait := s.delay(q, attempt)
		if s.o.LogRetries {
			s.log.Warn("request failed, retrying", "err", err, "attempt", attempt+1, "of", s.o.Retries+1, "delay", wait,
				"next", s.redacted[s.pick(q, attempt+1)])
		}
		if !sleep(ctx, wait) {
			return worst, &Error{URL: s.redacted[i], Route: q.route(), Detail: "last attempt: " + err.Error(), Err: context.Cause(ctx)}
		}
	}
}

// pick chooses the URL of an attempt.
func (s *sender) pick(q request, attempt int) int {
	n, over := len(s.o.URLs), attempt-s.o.FailoverAfter
	switch {
	case over <= 0:
		return s.current
	case s.o.Python:
		return over % n
	case q.opens:
		return (s.current + over) % n
	}
	return s.current
}

// repeats reports whether to retry a request. It stops when opening a session fails
// twice with the same message, because further attempts would fail, too.
func (s *sender) repeats(q request, what progress, err, last *Error) bool {
	switch {
	case q.never:
		return false
	case s.o.Python || s.o.Resend && what != failed:
		return true
	case what == refused:
		return true
	case what == unclear:
		return q.repeatable
	}
	return q.opens && err.Status == http.StatusInternalServerError && (last == nil || last.Detail != err.Detail)
}

// delay returns the delay after an attempt; see ClientOptions.Backoff.
func (s *sender) delay(q request, attempt int) time.Duration {
	seconds := math.Ldexp(s.o.Backoff.Seconds(), min(attempt, 64)) * (s.o.JitterMin + s.o.JitterRange*s.o.Jitter())
	if !s.o.Python || q.opens {
		seconds = min(seconds, s.o.MaxDelay.Seconds())
	}
	return time.Duration(min(seconds, 1e9) * float64(time.Second))
}

// sleep waits for d. It reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (q request) route() string {
	route := q.method + " " + q.path
	if q.what != "" {
		route += " " + q.what
	}
	return route
}

// attempt makes a request once.
func (s *sender) attempt(ctx context.Context, i int, q request) (progress, *Error) {
	fail := &Error{URL: s.redacted[i], Route: q.route()}
	within, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(within, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	r, err := http.NewRequestWithContext(traced, q.method, s.o.URLs[i]+q.path, bytes.NewReader(q.body))
	if err != nil {
		fail.Err = err
		return failed, fail
	}
	if q.kind != "" {
		r.Header.Set("Content-Type", q.kind)
	}
	if s.o.Token != "" {
		r.Header.Set("X-API-Key", s.o.Token)
	}
	a, err := s.http.Do(r)
	if err != nil {
		fail.Err = s.network(within, err)
		if unreached(err) && !connected.Load() {
			return refused, fail
		}
		return unclear, fail
	}
	defer a.Body.Close()
	fail.Status = a.StatusCode
	body, err := io.ReadAll(io.LimitReader(a.Body, s.o.Limits.Body+1))
	switch {
	case err != nil:
		fail.Err = s.network(within, err)
		return unclear, fail
	case int64(len(body)) > s.o.Limits.Body:
		fail.Err, fail.Detail = ErrTooLarge, fmt.Sprintf("at most %d bytes are allowed", s.o.Limits.Body)
		return unclear, fail
	case a.StatusCode != http.StatusOK:
		fail.Detail = explanation(a.Header.Get("Content-Type"), body)
		return classify(fail), fail
	}
	if err := q.read(a.Header.Get("Content-Type"), body); err != nil {
		fail.Err = err
		if errors.Is(err, ErrRemote) { // the legacy protocol reports some failures with status 200
			return failed, fail
		}
		return unclear, fail
	}
	return refused, nil
}

// health checks that a service answers, and returns its description of itself.
func (s *sender) health(ctx context.Context) (said map[string]any, err error) {
	q := request{method: http.MethodGet, path: "/health", opens: true, repeatable: true, read: func(_ string, body []byte) error {
		v, err := pyjson.Parse(body)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		var ok bool
		if said, ok = v.(map[string]any); !ok {
			return fmt.Errorf("%w: the answer must be an object, found %T", ErrProtocol, v)
		}
		return nil
	}}
	_, err = s.send(ctx, q)
	return said, err
}

// network removes the URL, which may have a password, from an error of the transport.
func (s *sender) network(within context.Context, err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(within.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v: %w", s.o.Timeout, context.DeadlineExceeded)
	}
	return err
}

// unreached reports whether no connection could be made, so that nothing was sent.
func unreached(err error) bool {
	var dial *net.OpError
	var name *net.DNSError
	var cert *tls.CertificateVerificationError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.As(err, &name) || errors.As(err, &cert)
}

// classify sets the sentinel for a status and returns the fate of the request.
func classify(e *Error) progress {
	switch code := e.Status; {
	case code == http.StatusServiceUnavailable, code == http.StatusTooManyRequests:
		e.Err = ErrBusy
		return refused
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		e.Err = ErrUnauthorized
	case code == http.StatusNotFound && strings.HasPrefix(e.Detail, "Session "):
		e.Err = ErrSession
	case code == http.StatusInternalServerError:
		e.Err = ErrRemote
	case code > http.StatusInternalServerError: // a gateway cannot reach the service, or a call timed out
		e.Err = ErrRemote
		return unclear
	default:
		e.Err = ErrProtocol
	}
	return failed
}

// explanation returns a service's error message: a string in JSON, a paragraph of an
// HTML page, or else the whole body.
func explanation(kind string, body []byte) string {
	if v, err := pyjson.Parse(body); err == nil {
		if data, ok := v.(map[string]any); ok {
			for _, name := range []string{"detail", "error"} {
				if text, ok := data[name].(string); ok {
					return text
				}
			}
		}
	}
	text := clip(string(body), 2000)
	if strings.HasPrefix(kind, "text/html") {
		if _, rest, ok := strings.Cut(text, "<p>"); ok {
			text, _, _ = strings.Cut(rest, "</p>")
			text = html.UnescapeString(text)
		}
	}
	return strings.TrimSpace(text)
}
