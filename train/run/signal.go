package run

import (
	"context"
	"errors"

	"vagen/internal/signals"
)

// UntilSignal returns a context that ends at the first SIGINT, SIGTERM or, on Unix, SIGUSR1, so that Train
// finishes the current optimiser steps, saves and returns. A second SIGINT or SIGTERM ends the program immediately.
func UntilSignal(ctx context.Context) (_ context.Context, stop func()) { return signals.Until(ctx) }

// ExitCode is the exit status of a program whose run ended with err: 0 without an error,
// 128 plus the signal's number when a signal ended the context of UntilSignal, else 1.
func ExitCode(ctx context.Context, err error) int {
	var by signals.Signal
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &by):
		return by.Code()
	}
	return 1
}
