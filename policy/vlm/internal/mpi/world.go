package mpi

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrUnavailable is wrapped by errors of Start in a program without MPI, in one whose library fails, and in one that
// was not started as one of size processes.
var ErrUnavailable = errors.New("MPI is unavailable")

// World are the processes that were started together, the ranks. Any goroutine may call its methods.
type World interface {
	Rank() int
	Size() int
	// Send starts to send p, at most 1 GiB, which must not change until the request is complete, to a rank. The array
	// below p must not be a part of a value with pointers.
	Send(p []byte, to, tag int) (Request, error)
	// Receive starts to receive the next message with this tag of a rank. p must have at least its length.
	Receive(p []byte, from, tag int) (Request, error)
	// Finalize ends MPI in this process, when all ranks have called it.
	Finalize() error
}

// Request is a transfer that has started.
type Request interface {
	// Test reports whether the transfer is complete, and the number of bytes received.
	Test() (n int, done bool, err error)
	// Cancel gives a transfer up. Its memory must not be used again.
	Cancel()
}

// started is this process's world: MPI can be initialised once.
var started = sync.OnceValues(initialise)

// Start initialises MPI if no earlier call has, and checks that size processes were started together. It waits for
// the other processes until ctx ends.
func Start(ctx context.Context, size int) (World, error) {
	type result struct {
		w   World
		err error
	}
	done := make(chan result, 1)
	go func() {
		w, err := started()
		done <- result{w, err}
	}()
	select {
	case r := <-done:
		switch {
		case r.err != nil:
			return nil, fmt.Errorf("mpi: %w: %w", ErrUnavailable, r.err)
		case r.w.Size() != size:
			return nil, fmt.Errorf(
				"mpi: %w: this process is rank %d of %d, expected %d: "+
					"start it with mpirun -n %d of the MPI it was built with, which is %s",
				ErrUnavailable, r.w.Rank(), r.w.Size(), size, size, libraryVersion(),
			)
		}
		return r.w, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("mpi: MPI_Init_thread waits for the other ranks: %w", context.Cause(ctx))
	}
}
