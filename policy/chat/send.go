package chat

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"vagen/internal/clock"
	"vagen/internal/retry"
	"vagen/internal/transport"
)

// outcome is the result of an attempt.
type outcome struct {
	answer *answer
	err    *Error
	verdict
	after time.Duration // delay that the service asks for
	bill  bill
}

// sendWithRetries sends a job's request and retries failures that may be temporary. It
// returns only errors that concern every conversation; others are stored in the job.
func (m *Model) sendWithRetries(ctx context.Context, j *job, start *event) error {
	pauses := retry.Doubling(m.o.Backoff, m.o.MaxDelay).Pauses(retry.Jitter(m.o.JitterSeed, j.prompt.Seed))
	for attempt := 0; ; attempt++ {
		out := m.attempt(ctx, j)
		m.account(j, start, &out, attempt > 0)
		if out.err == nil {
			j.answer, j.body = out.answer, nil
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		out.err.Attempts = attempt + 1
		wait, more := pauses.Next(out.after)
		if !more || !out.retry || attempt >= m.o.Retries {
			m.log.Warn("request failed, not retrying", "conversation", j.prompt.Conversation, "err", out.err)
			m.ledger.failed()
			if out.affectsAll {
				return out.err
			}
			j.err, j.body = out.err, nil
			return nil
		}
		if out.err.Status == http.StatusTooManyRequests && out.after > 0 {
			m.pace.pause(wait)
		}
		m.log.Warn("request failed, retrying", "conversation", j.prompt.Conversation, "err", out.err,
			"attempt", attempt+1, "of", m.o.Retries+1, "delay", wait)
		if err := clock.Wait(ctx, wait); err != nil {
			return err
		}
		var err error
		if start, err = m.admit(ctx, j.estimate); err != nil {
			return err
		}
	}
}

// account records the tokens and cost of an attempt.
func (m *Model) account(j *job, start *event, out *outcome, retry bool) {
	used := tokens{}
	switch out.bill {
	case counted:
		used = out.answer.used
	case lost:
		used = j.estimate
		if out.answer != nil { // the service answered without counting tokens
			used = m.ledger.estimate(j.estimate.prompt, estimateText(out.answer.text))
		}
	}
	m.pace.setTokens(start, used.prompt+used.completion)
	m.ledger.commit(j.estimate, used, out.bill, j.images, retry)
}

// attempt sends a request once.
func (m *Model) attempt(ctx context.Context, j *job) outcome {
	fail := &Error{API: m.o.API, URL: m.url, Model: m.o.Model}
	within, cancel := context.WithTimeout(ctx, m.o.Timeout)
	defer cancel()
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(within, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		connected.Store(true)
	}})
	r, err := m.request(traced, j.body)
	if err != nil {
		fail.Err = m.key.hideError(err)
		return outcome{err: fail}
	}
	a, err := m.http.Do(r)
	if err != nil {
		if transport.Unreached(err) && !connected.Load() {
			fail.Err = fmt.Errorf("%w: %w", ErrUnreachable, m.network(within, err))
			return outcome{err: fail, verdict: verdict{ErrUnreachable, true, true}}
		}
		return m.lost(fail, m.network(within, err))
	}
	defer a.Body.Close()
	fail.Status = a.StatusCode
	fail.RequestID = transport.Clip(m.key.hide(cmp.Or(a.Header.Get("X-Request-Id"), a.Header.Get("Request-Id"))), 100)
	if a.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(a.Body, min(m.o.MaxResponse, 64<<10))) // the status suffices if this fails
		return m.refused(fail, explain(body), a.Header)
	}
	body, err := io.ReadAll(io.LimitReader(a.Body, m.o.MaxResponse+1))
	switch {
	case err != nil:
		return m.lost(fail, m.network(within, err))
	case int64(len(body)) > m.o.MaxResponse:
		fail.Err, fail.Detail = ErrTooLarge, fmt.Sprintf("at most %d bytes are allowed", m.o.MaxResponse)
		return outcome{err: fail, bill: lost}
	}
	answer, err := m.api.parse(body)
	if f := (*fault)(nil); errors.As(err, &f) {
		if fail.Status = f.status; fail.Status < 400 { // no number: the text may name a failure; else it is the service's
			if fail.Status = http.StatusBadRequest; classify(fail.Status, f, m.sent).err == ErrRequest {
				fail.Status = http.StatusBadGateway
			}
		}
		return m.refused(fail, f, a.Header)
	}
	if err != nil {
		fail.Err, fail.Detail = ErrResponse, transport.Clip(m.key.hide(err.Error()), 2000)
		return outcome{err: fail, verdict: verdict{ErrResponse, true, false}, bill: lost}
	}
	if !answer.counted {
		return outcome{answer: answer, bill: lost}
	}
	return outcome{answer: answer, bill: counted}
}

// request creates an HTTP request.
func (m *Model) request(ctx context.Context, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "vagen")
	if m.o.API == Anthropic {
		r.Header.Set("Anthropic-Version", anthropicVersion)
	}
	for name, value := range m.o.Header {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/json")
	if key := m.key.reveal(); key != "" {
		m.api.authorize(r.Header, key)
	}
	return r, nil
}

// lost is the outcome of an attempt without an answer: the service may have processed
// it.
func (m *Model) lost(fail *Error, err error) outcome {
	fail.Err = fmt.Errorf("%w: %w", ErrLost, err)
	return outcome{err: fail, verdict: verdict{ErrLost, true, false}, bill: lost}
}

// refused is the outcome of an attempt that the service answered with a failure.
func (m *Model) refused(fail *Error, f *fault, h http.Header) outcome {
	v := classify(fail.Status, f, m.sent)
	fail.Code, fail.Err = transport.Clip(m.key.hide(f.code), 100), v.err
	fail.Detail = transport.Clip(m.key.hide(f.message), 2000)
	if v.err == ErrKey && m.key.reveal() == "" {
		fail.Detail = strings.TrimSpace("no key was sent, see Options.KeyEnv. " + fail.Detail)
	}
	fail.RetryAfter = max(f.after, retry.After(h, time.Now()))
	return outcome{err: fail, verdict: v, after: fail.RetryAfter, bill: free}
}

// network shortens an error of the transport: it leaves out URL and method, which the
// caller adds.
func (m *Model) network(within context.Context, err error) error {
	if errors.Is(within.Err(), context.DeadlineExceeded) {
		return noAnswer(m.o.Timeout)
	}
	return m.key.hideError(transport.Cause(err))
}
