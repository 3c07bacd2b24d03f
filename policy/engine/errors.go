package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"vagen/policy"
)

// Sentinels for errors that callers distinguish.
var (
	// ErrOption is wrapped by errors about Options.
	ErrOption = errors.New("bad option")
	// ErrServer means that a server did not answer, or answered with an internal error.
	ErrServer = errors.New("server failed")
	// ErrProtocol means that a server's answer has missing or contradictory fields.
	ErrProtocol = errors.New("answer does not follow the protocol")
	// ErrRefused means that a server rejected a request.
	ErrRefused = errors.New("request was refused")
	// ErrAccess means that a server refuses this client, redirects it to another server, or was
	// started without a needed flag.
	ErrAccess = errors.New("access was refused")
	// ErrAborted means that a server stopped a response before its end.
	ErrAborted = errors.New("response was aborted")
	// ErrVersion means that other weights than the current ones wrote a response.
	ErrVersion = errors.New("response was written by other weights")
	// ErrMissing means that a server does not have the adapter of the current version.
	ErrMissing = errors.New("server does not have the model")
	// ErrPrompt means that a server read another prompt than the one that was sent.
	ErrPrompt = errors.New("server read another prompt")
	// ErrModel means that a server has another model or tokenizer.
	ErrModel = errors.New("server has another model")
	// ErrNoServer means that no server is healthy.
	ErrNoServer = errors.New("no server is healthy")
	// ErrMismatch means that log-probs of the servers differ too much from the learner's.
	ErrMismatch = errors.New("log-probs of sampling and training differ")
	// ErrClosed is returned by a Fleet that has been closed.
	ErrClosed = errors.New("engine: the fleet has been closed")
)

// serverError is a failed call of a server.
type serverError struct {
	server string // address without credentials
	call   string // path of the call
	status int    // 0 without an answer
	kind   error  // a sentinel
	detail string
	cause  error         // may be nil
	after  time.Duration // the server asks for no request before; 0 does not ask
}

func (e *serverError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "engine: %s: %s: %v", e.server, e.call, e.kind)
	if e.status != 0 {
		fmt.Fprintf(&b, ": status %d", e.status)
	}
	if e.detail != "" {
		b.WriteString(": " + e.detail)
	}
	if e.cause != nil {
		b.WriteString(": " + e.cause.Error())
	}
	return b.String()
}

func (e *serverError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

// Is says that a request that a server refuses is policy.ErrMessages: another one may be answered.
func (e *serverError) Is(target error) bool {
	return target == policy.ErrMessages && e.kind == ErrRefused
}

// afterOf returns the delay that a server asks for in an error.
func afterOf(err error) time.Duration {
	if e, ok := errors.AsType[*serverError](err); ok {
		return e.after
	}
	return 0
}

// fatal reports whether an error concerns every conversation, so that no other attempt or
// conversation can succeed.
func fatal(err error) bool {
	return errors.Is(err, ErrAccess) || errors.Is(err, ErrPrompt) || errors.Is(err, ErrNoServer) ||
		errors.Is(err, ErrClosed) || errors.Is(err, ErrModel)
}

// stale reports whether an error means that a server needs the current weights again.
func stale(err error) bool { return errors.Is(err, ErrVersion) || errors.Is(err, ErrMissing) }
