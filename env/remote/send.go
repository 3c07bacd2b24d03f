package remote

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"vagen/env"
	"vagen/env/remote/hosts"
	"vagen/env/remote/internal/pyjson"
	"vagen/internal/clock"
	"vagen/internal/retry"
	"vagen/internal/silent"
	"vagen/internal/transport"
)

// sender sends the requests of one client and retries them where that is allowed.
type sender struct {
	o       ClientOptions
	log     *slog.Logger
	session *hosts.Session
	current int // with ClientOptions.Python: index of the URL in use
}

func newSender(o ClientOptions) (*sender, error) {
	if o.Config == nil {
		o.Config = map[string]any{}
	}
	o.Config = integral(o.Config).(map[string]any)
	if o.Hosts == nil {
		o.Hosts = hostsOf(o.Transport)
	}
	s := &sender{o: o, log: silent.Log(o.Log)}
	if o.Jitter == nil {
		s.o.Jitter = retry.Jitter(0, 0)
	}
	s.o.URLs = nil // the session has them, shared by all clients
	var err error
	s.session, err = o.Hosts.Session(hosts.Trim(o.URLs),
		hosts.SessionOptions{FailoverAfter: o.FailoverAfter, Probe: s.probe, Log: s.log})
	return s, errors.Join(err, o.validate())
}

// request is one request and the conditions of its retries.
type request struct {
	method, path string
	what         string // the call, for messages
	kind         string // Content-Type
	body         []byte
	target       hosts.Kind
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
	if s.o.Python {
		return s.sendInOrder(ctx, q)
	}
	key, ok := env.KeyOf(ctx)
	if !ok {
		key = s.session.Key()
	}
	at := s.session.Begin(q.target, key)
	defer at.Failed() // nothing after success
	worst := refused
	var last *Error
	for attempt := 0; ; attempt++ {
		what, err := s.exchange(ctx, at.Host(), q)
		worst = max(worst, what)
		if err != nil && ctx.Err() != nil {
			return worst, &Error{URL: at.Host().Name(), Route: q.route(), Err: context.Cause(ctx)}
		}
		at.Report(resultOf(err))
		if err == nil {
			at.Succeeded()
			return refused, nil
		}
		again := s.repeats(q, what, err, last)
		if again && at.Move() { // at once, and not counted as a retry
			attempt--
			continue
		}
		if attempt >= s.o.Retries || !again || err.after > retry.Longest {
			return worst, err
		}
		if at.GiveUp() {
			err.Err = fmt.Errorf("%w: %w", ErrUnreachable, err.Err)
			return worst, err
		}
		last = err
		at.Next()
		if err := s.pause(ctx, q, attempt, at.Host(), err); err != nil {
			return worst, err
		}
	}
}

// sendInOrder is send with ClientOptions.Python.
func (s *sender) sendInOrder(ctx context.Context, q request) (progress, error) {
	list := s.session.Hosts()
	pick := func(attempt int) int {
		if over := attempt - s.o.FailoverAfter; over > 0 {
			return over % len(list)
		}
		return s.current
	}
	worst := refused
	for attempt := 0; ; attempt++ {
		i := pick(attempt)
		what, err := s.exchange(ctx, list[i], q)
		if err == nil {
			s.current = i
			return refused, nil
		}
		worst = max(worst, what)
		if ctx.Err() != nil {
			return worst, &Error{URL: list[i].Name(), Route: q.route(), Err: context.Cause(ctx)}
		}
		if attempt >= s.o.Retries || q.never {
			return worst, err
		}
		if err := s.pause(ctx, q, attempt, list[pick(attempt+1)], err); err != nil {
			return worst, err
		}
	}
}

// pause logs a retry and waits before it. An error is that of ctx.
func (s *sender) pause(ctx context.Context, q request, attempt int, next *hosts.Host, err *Error) error {
	wait := s.delay(q, attempt)
	if !s.o.Python && next.Name() == err.URL {
		wait, _ = retry.Honour(wait, err.after)
	}
	if s.o.LogRetries {
		s.log.Warn("request failed, retrying", "err", err, "attempt", attempt+1, "of", s.o.Retries+1, "delay", wait, "next",
			next.Name())
	}
	if ended := clock.Wait(ctx, wait); ended != nil {
		return &Error{URL: err.URL, Route: q.route(), Detail: "last attempt: " + err.Error(), Err: ended}
	}
	return nil
}

// repeats reports whether to retry a request. It stops when opening a session fails
// twice with the same message, because further attempts would fail, too.
func (s *sender) repeats(q request, what progress, err, last *Error) bool {
	switch {
	case s.o.Resend && what != failed, what == refused:
		return true
	case what == unclear:
		return q.repeatable
	}
	return q.target != hosts.Call && err.Status == http.StatusInternalServerError &&
		(last == nil || last.Detail != err.Detail)
}

// delay returns the delay after an attempt; see ClientOptions.Backoff.
func (s *sender) delay(q request, attempt int) time.Duration {
	b := retry.Backoff{
		Min: s.o.Backoff, Max: math.MaxInt64, Factor: 2, JitterMin: s.o.JitterMin, JitterRange: s.o.JitterRange,
	}
	d := b.Delay(attempt, s.o.Jitter())
	if !s.o.Python || q.target != hosts.Call {
		d = min(d, s.o.MaxDelay)
	}
	return d
}

func (q request) route() string {
	route := q.method + " " + q.path
	if q.what != "" {
		route += " " + q.what
	}
	return route
}

// resultOf returns what an attempt says about the service.
func resultOf(err *Error) hosts.Result {
	switch {
	case err == nil:
		return hosts.Opened
	case err.Status == 0 && transport.Unreached(err.Err):
		return hosts.Unreachable
	case err.Status == 0, err.Status == http.StatusBadGateway, err.Status == http.StatusGatewayTimeout, err.broken:
		return hosts.Silent
	}
	return hosts.Refused
}

// exchange sends a request once and reads the answer.
func (s *sender) exchange(ctx context.Context, to *hosts.Host, q request) (progress, *Error) {
	fail := &Error{URL: to.Name(), Route: q.route()}
	within, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(within, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		connected.Store(true)
	}})
	r := to.Request(traced, q.method, q.path, q.body)
	if q.kind != "" {
		r.Header.Set("Content-Type", q.kind)
	}
	if s.o.Token != "" {
		r.Header.Set("X-API-Key", s.o.Token)
	}
	a, err := s.client(to).Do(r)
	if err != nil {
		fail.Err = s.network(within, err)
		if transport.Unreached(err) && !connected.Load() {
			return refused, fail
		}
		return unclear, fail
	}
	defer a.Body.Close()
	fail.Status = a.StatusCode
	to.Heard(a.Header)
	body, err := io.ReadAll(io.LimitReader(a.Body, s.o.Limits.Body+1))
	switch {
	case err != nil:
		fail.Err, fail.broken = s.network(within, err), true
		return unclear, fail
	case int64(len(body)) > s.o.Limits.Body:
		fail.Err, fail.Detail = ErrTooLarge, fmt.Sprintf("at most %d bytes are allowed", s.o.Limits.Body)
		return unclear, fail
	case a.StatusCode != http.StatusOK:
		fail.after = retry.After(a.Header, time.Now())
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

// network removes the URL, which may have a password, from an error of the transport.
func (s *sender) network(within context.Context, err error) error {
	if errors.Is(within.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v: %w", s.o.Timeout, context.DeadlineExceeded)
	}
	return transport.Cause(err)
}

// classify sets the sentinel for a status and returns the fate of the request.
func classify(e *Error) progress {
	switch code := e.Status; {
	case code == http.StatusServiceUnavailable, code == http.StatusTooManyRequests:
		e.Err = ErrBusy
		return refused
	case code == http.StatusUnauthorized:
		e.Err = ErrUnauthorized
	case code == http.StatusForbidden, code == http.StatusBadRequest: // an option, for example
		e.Err = ErrRequest
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
	text := transport.Clip(string(body), 2000)
	if strings.HasPrefix(kind, "text/html") {
		if _, rest, ok := strings.Cut(text, "<p>"); ok {
			text, _, _ = strings.Cut(rest, "</p>")
			text = html.UnescapeString(text)
		}
	}
	return strings.TrimSpace(text)
}
