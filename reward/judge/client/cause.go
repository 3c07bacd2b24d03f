package client

import (
	"context"
	"errors"
	"fmt"

	"vagen/policy"
	"vagen/policy/chat"
	"vagen/reward/judge"
)

// Cause is why a claim has no score.
type Cause string

// The causes, in the order in which they are reported.
const (
	Unreachable Cause = "unreachable" // no connection, or no such model at the address
	Timeout     Cause = "timeout"     // no answer in time
	Lost        Cause = "lost"        // the connection broke, or the answer is no answer of the protocol
	Server      Cause = "server"      // the service failed: status 5xx
	Busy        Cause = "busy"        // the service limits requests: status 429
	Key         Cause = "key"         // the key is missing or refused, or the account has no credit
	Refused     Cause = "refused"     // the service refuses this request
	Answer      Cause = "answer"      // the answer has not the form that was asked for
	Breaker     Cause = "breaker"     // not asked: the service did not work shortly before
	Budget      Cause = "budget"      // not asked, or given up: the step's time was used up
)

// Causes lists all causes.
func Causes() []Cause {
	return []Cause{Unreachable, Timeout, Lost, Server, Busy, Key, Refused, Answer, Breaker, Budget}
}

// Error says why a claim has no score.
type Error struct {
	Cause    Cause
	Attempts int   // how often the claim was sent
	Err      error // of the last attempt; nil if it was not sent
}

// Error implements error.
func (e *Error) Error() string {
	text := fmt.Sprintf("judge: no score (%s)", e.Cause)
	if e.Attempts > 1 {
		text += fmt.Sprintf(" after %d attempts", e.Attempts)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the error of the last attempt.
func (e *Error) Unwrap() error { return e.Err }

// class is what an error of an attempt means.
type class struct {
	cause Cause
	retry bool // another attempt may succeed
	down  bool // the service does not work
}

// classify returns what the error of an attempt means.
func classify(err error) class {
	var timeout interface{ Timeout() bool }
	is := func(any ...error) bool {
		for _, target := range any {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	switch {
	case is(judge.ErrAnswer):
		return class{Answer, true, false}
	case is(chat.ErrKey, chat.ErrQuota):
		return class{Key, false, true}
	case is(chat.ErrModel):
		return class{Unreachable, false, true}
	case is(chat.ErrUnreachable):
		return class{Unreachable, true, true}
	case is(chat.ErrBusy):
		return class{Busy, true, false}
	case is(chat.ErrServer):
		return class{Server, true, true}
	case errors.As(err, &timeout) && timeout.Timeout(), is(context.DeadlineExceeded):
		return class{Timeout, true, true}
	case is(chat.ErrLost, chat.ErrResponse, chat.ErrTooLarge):
		return class{Lost, true, true}
	case is(chat.ErrRefused, chat.ErrRequest, chat.ErrSetting, policy.ErrNoRoom):
		return class{Refused, false, false}
	}
	return class{Lost, true, true}
}
