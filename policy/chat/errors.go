package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"vagen/internal/transport"
	"vagen/policy"
)

// Errors that concern every conversation. The call returns them.
var (
	ErrKey         = errors.New("the key is missing or refused")
	ErrModel       = errors.New("the service does not know the model, or is not at this address")
	ErrQuota       = errors.New("the account has no credit left")
	ErrSetting     = errors.New("the model does not support a setting")
	ErrUnreachable = errors.New("the address cannot be reached")
	ErrBudget      = errors.New("the budget is exhausted")
)

// Errors of one conversation. They are in its Completion.Err.
var (
	ErrRefused  = errors.New("the service refuses to answer")
	ErrRequest  = errors.New("the service refuses the request")
	ErrBusy     = errors.New("the service is busy")
	ErrServer   = errors.New("the service failed")
	ErrLost     = errors.New("the answer did not arrive")
	ErrResponse = errors.New("the answer has an unknown form")
	ErrTooLarge = errors.New("the answer is too large")
)

// Error is a request that failed. It never holds a key.
type Error struct {
	API       API
	URL       string // where it was sent
	Model     string
	Status    int    // of the HTTP response, 0 without one
	Code      string // the service's name for the failure
	Detail    string // the service's message
	RequestID string // the service's id of the request
	Attempts  int    // how often it was sent
	// RetryAfter is the delay before the next request that the service asks for, 0 without.
	RetryAfter time.Duration
	Err        error // one of the sentinels or policy.ErrNoRoom
}

// Error returns one line with the fields that are set.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "chat: %s %s at %s", e.API, e.Model, e.URL)
	if e.Attempts > 1 {
		fmt.Fprintf(&b, ": %d attempts", e.Attempts)
	}
	if e.Status != 0 {
		fmt.Fprintf(&b, ": status %d", e.Status)
	}
	if e.Code != "" {
		fmt.Fprintf(&b, " %s", e.Code)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", transport.Clip(e.Detail, 500))
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", e.RequestID)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is says that a request that the service refuses to answer is policy.ErrMessages: another one may be answered.
func (e *Error) Is(target error) bool {
	return target == policy.ErrMessages && (errors.Is(e.Err, ErrRequest) || errors.Is(e.Err, ErrRefused))
}

// noAnswer is the error of an attempt that exceeded its time limit. Its method Timeout is
// that of net.Error.
type noAnswer time.Duration

func (t noAnswer) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(t)) }
func (t noAnswer) Timeout() bool { return true }
