package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"vagen/internal/jsontext"
	"vagen/internal/origin"
	"vagen/internal/redact"
	"vagen/internal/retry"
	"vagen/internal/transport"
)

// maxAnswer bounds an answer's length in bytes; a token takes about 200.
const maxAnswer = 256 << 20

// wire sends calls to servers.
type wire struct {
	http *http.Client
	key  string
}

func newWire(o *Options) *wire {
	t := transport.Default()
	t.MaxIdleConnsPerHost, t.MaxIdleConns = o.InFlight, 0
	t.IdleConnTimeout = 90 * time.Second
	// The key, prompts and weights stay with the server that was named.
	return &wire{http: origin.Client(origin.Stay, t), key: o.Key}
}

// call sends a request and decodes the JSON answer into out, unless out is nil. A body of
// nil is sent as an empty body.
func (w *wire) call(ctx context.Context, base, method, path string, body, out any) error {
	fail := &serverError{server: base, call: strings.TrimPrefix(path, "/"), kind: ErrServer}
	var reader io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			fail.kind, fail.cause = ErrRefused, err
			return fail
		}
		reader = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, base+path, reader)
	if err != nil {
		fail.kind, fail.cause = ErrRefused, err
		return fail
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("User-Agent", "vagen")
	if w.key != "" {
		r.Header.Set("Authorization", "Bearer "+w.key)
	}
	a, err := w.http.Do(r)
	if err != nil {
		if fail.cause = shortened(ctx, err); origin.Refused(err) {
			fail.kind = ErrAccess
		}
		return fail
	}
	defer a.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	switch {
	case err != nil:
		fail.cause = shortened(ctx, err)
		return fail
	case len(raw) > maxAnswer:
		fail.kind, fail.detail = ErrProtocol, fmt.Sprintf("more than %d bytes", maxAnswer)
		return fail
	case a.StatusCode != http.StatusOK:
		fail.status, fail.detail = a.StatusCode, w.hide(explain(raw))
		fail.kind, fail.after = kindOf(a.StatusCode), retry.After(a.Header, time.Now())
		return fail
	case out == nil:
		return nil
	}
	if err := jsontext.Unmarshal(raw, out); err != nil {
		fail.kind, fail.cause = ErrProtocol, err
		return fail
	}
	return nil
}

// post is call for a request whose answer says nothing more.
func (w *wire) post(ctx context.Context, base, path string, body any) error {
	return w.call(ctx, base, http.MethodPost, path, body, nil)
}

// shortened leaves out what the caller adds to an error of the transport.
func shortened(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return transport.Cause(err)
}

// hide removes the key from a server's text.
func (w *wire) hide(text string) string {
	if len(w.key) >= 4 {
		text = strings.ReplaceAll(text, w.key, redact.Mark)
	}
	return text
}

// kindOf classifies a status. Statuses that a proxy or a busy server sends may be temporary.
func kindOf(status int) error {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return ErrAccess
	case status == http.StatusNotFound:
		return ErrMissing
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status < 400, status >= 500:
		return ErrServer
	}
	return ErrRefused
}

// explain returns the message of an error answer, at most 500 bytes of it.
func explain(raw []byte) string {
	message, _ := transport.Failure(raw)
	return transport.Clip(strings.TrimSpace(message), 500)
}
