package remote

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"vagen/env"
	"vagen/env/internal/calls"
	"vagen/internal/transport"
)

// Sentinels that errors of the clients wrap.
var (
	ErrBusy         = errors.New("the service is busy")
	ErrUnauthorized = errors.New("the service refuses the key")
	ErrRequest      = errors.New("the service refuses the request")
	ErrRemote       = errors.New("the environment failed") // on the service's side
	ErrProtocol     = errors.New("the answer is malformed or incomplete")
	ErrTooLarge     = errors.New("the answer is too large")
	ErrNotReset     = calls.ErrNotReset
	ErrClosed       = calls.ErrClosed
)

// Errors after which the episode has to be started again. They are env.ErrLost, too.
var (
	ErrSession     error = lost("the service does not know the session")
	ErrUnreachable error = lost("the service of the session does not answer, others do")
	ErrUncertain   error = lost("it is unknown whether the last step was executed")
)

// lost is an error that is env.ErrLost.
type lost string

func (e lost) Error() string        { return string(e) }
func (e lost) Is(target error) bool { return target == env.ErrLost }

// ErrKeyNeeded is wrapped by the error of Serve if the Server has no APIKey and other
// machines can reach the address.
var ErrKeyNeeded = errors.New("an API key is needed")

// Error describes a request that failed.
type Error struct {
	URL    string // base URL of the service
	Route  string // e.g. "POST /call step"
	Status int    // of the HTTP response, 0 without one
	Detail string // the service's message
	Err    error  // one of the sentinels, or an error of the network

	broken bool          // the connection broke within the answer
	after  time.Duration // the service asks for no request before; 0 does not ask
}

// Error returns one line with the fields that are set.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "remote: %s at %s", e.Route, e.URL)
	if e.Status != 0 {
		fmt.Fprintf(&b, ": status %d", e.Status)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", transport.Clip(e.Detail, 500))
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
