// Package signals ends a context at the first signal that asks a program to stop, and a
// program that crashes by a signal.
package signals

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// Signal is the cause of a context that was ended by a signal.
type Signal syscall.Signal

// Error implements error.
func (s Signal) Error() string { return fmt.Sprintf("signal: %v", syscall.Signal(s)) }

// Is makes the cause, as context.Cause returns it, match context.Canceled.
func (s Signal) Is(target error) bool { return target == context.Canceled }

// Code is the shells' exit code for the signal.
func (s Signal) Code() int { return 128 + int(s) }

// AbortOnCrash makes a crash of the program, such as out of memory or a panic, end it with
// SIGABRT: Go's exit code for crashes is 2, as that of programs for a wrong command line.
func AbortOnCrash() { debug.SetTraceback("crash") }

// Until returns a context that ends at the first SIGINT, SIGTERM or, on Unix, SIGUSR1, so that work can stop
// cleanly. A second SIGINT or SIGTERM ends the program. SIGUSR1 is what schedulers send before they kill, perhaps
// several times and through several programs: after the first signal it does nothing.
func Until(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, append(warnings, os.Interrupt, syscall.SIGTERM)...)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			if len(warnings) > 0 { // without arguments Ignore means all signals
				signal.Ignore(warnings...)
			}
			cause := error(context.Canceled)
			if n, ok := s.(syscall.Signal); ok {
				cause = Signal(n)
			}
			cancel(cause)
		case <-ctx.Done():
			signal.Stop(signals)
		}
	}()
	return ctx, func() { cancel(nil) }
}
