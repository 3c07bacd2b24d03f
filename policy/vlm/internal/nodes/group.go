package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"vagen/policy/vlm/internal/mpi"
)

var (
	// ErrConfig is wrapped by errors about a Config, and about ranks that do not fit each other.
	ErrConfig = errors.New("bad setting")
	// ErrLost is wrapped by errors about a rank that cannot be reached any more.
	ErrLost = errors.New("the rank is lost")
	// ErrFailed is wrapped by errors that another rank reported.
	ErrFailed = errors.New("it failed")
	// ErrProtocol is wrapped by errors about data that a rank of this version does not send.
	ErrProtocol = errors.New("protocol error")
	// ErrEnded is returned by Communicator.Next after rank 0 has closed the group.
	ErrEnded = errors.New("nodes: rank 0 has ended the group")
)

// Communicator is a rank's connections to all others. The first error ends it on all ranks. A nil one is that of a
// process alone: it has a place, and sends nothing.
type Communicator struct {
	world   mpi.World
	links   []*Link // by rank; nil for this one
	silence time.Duration

	sent   atomic.Int64
	waited atomic.Int64 // nanoseconds

	mu      sync.Mutex
	err     error           // why the group ended
	life    context.Context // ends with the group, for the same reason
	stop    context.CancelCauseFunc
	watched chan struct{} // closed when the others know that the group has ended
	parted  error         // of telling them
}

// ID returns this rank.
func (g *Communicator) ID() int {
	if g == nil {
		return 0
	}
	return g.world.Rank()
}

// Nodes returns the number of ranks.
func (g *Communicator) Nodes() int {
	if g == nil {
		return 1
	}
	return len(g.links)
}

// Err returns why the group ended; nil while it works.
func (g *Communicator) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// fail ends the group on this rank, unless it has ended, because of err.
func (g *Communicator) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
		g.stop(err)
	}
}

// Fail ends the group on all ranks because of err. It returns the first error that ended it.
func (g *Communicator) Fail(err error) error {
	g.fail(err)
	<-g.watched
	return g.Err()
}

// Failed ends the group if err is not nil, because the other ranks take part in the same call. It
// returns err.
func (g *Communicator) Failed(err error) error {
	if g != nil && err != nil {
		g.Fail(err)
	}
	return err
}

// Whole returns the context of a call in which other ranks take part: its end would end the group, so a run that is
// interrupted could not save while MPI ends all of its processes.
func (g *Communicator) Whole(ctx context.Context) context.Context {
	if g == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// Close ends the group; on rank 0 the other ranks' Next returns ErrEnded, and MPI is ended. The error is about
// ending it.
func (g *Communicator) Close() error {
	err := fmt.Errorf("nodes: rank %d has closed the group", g.ID())
	last := func(ctx context.Context, l *Link) error { return l.send(ctx, end, nil) }
	if g.ID() == 0 && g.do(context.Background(), last, g.links...) == nil {
		err = ErrEnded
	}
	if errors.Is(g.Fail(err), ErrEnded) && g.parted != nil {
		return fmt.Errorf("nodes: ending MPI: %w", g.parted)
	}
	return nil
}

// transfer sends to or receives from a rank. It must use ctx, which ends when the group does.
type transfer func(ctx context.Context, l *Link) error

// do calls f for other ranks at the same time, unless the group has ended. An error ends it.
func (g *Communicator) do(ctx context.Context, f transfer, links ...*Link) error {
	if err := g.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.life, func() { cancel(context.Cause(g.life)) })()
	var calls []func() error
	for _, l := range links {
		if l != nil {
			calls = append(calls, func() error { return f(ctx, l) })
		}
	}
	if err := together(cancel, calls...); err != nil {
		return g.Fail(err)
	}
	return nil
}

// together calls all at the same time. The first error interrupts the others and is returned.
func together(cancel context.CancelCauseFunc, calls ...func() error) error {
	var first sync.Once
	var failed error
	var wg sync.WaitGroup
	for _, f := range calls {
		wg.Go(func() {
			if err := f(); err != nil {
				first.Do(func() { failed = err })
				cancel(err)
			}
		})
	}
	wg.Wait()
	return failed
}

// both sends to a rank and receives from it at the same time.
func both(send, receive transfer) transfer {
	return func(ctx context.Context, l *Link) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		return together(cancel, func() error { return send(ctx, l) }, func() error { return receive(ctx, l) })
	}
}

// Gather sends own to all ranks and returns what each rank sent, of at most most bytes.
func (g *Communicator) Gather(ctx context.Context, own []byte, most int64) ([][]byte, error) {
	out := make([][]byte, len(g.links))
	out[g.ID()] = own
	start := time.Now()
	waited := make([]time.Duration, len(g.links)) // until a rank had begun to send
	send := func(ctx context.Context, l *Link) error { return l.Send(ctx, own) }
	receive := func(ctx context.Context, l *Link) error {
		n, err := l.header(ctx, data, l.timeout)
		if err != nil {
			return err
		}
		waited[l.rank] = time.Since(start)
		out[l.rank], err = l.payload(ctx, n, most)
		return err
	}
	err := g.do(ctx, both(send, receive), g.links...)
	g.waited.Add(int64(slices.Max(waited)))
	return out, err
}

// Swap sends to another rank and receives from it at the same time.
func (g *Communicator) Swap(
	ctx context.Context, partner int, send, receive func(ctx context.Context, l *Link) error,
) error {
	return g.do(ctx, both(send, receive), g.links[partner])
}

// Broadcast calls send for every other rank on rank 0, and receive for rank 0 on the others.
func (g *Communicator) Broadcast(ctx context.Context, send, receive func(ctx context.Context, l *Link) error) error {
	if g.ID() == 0 {
		return g.do(ctx, send, g.links...)
	}
	return g.do(ctx, receive, g.links[0])
}

// Command sends a command, which Next returns there, to all other ranks.
func (g *Communicator) Command(ctx context.Context, payload []byte) error {
	return g.do(ctx, func(ctx context.Context, l *Link) error {
		g.sent.Add(int64(len(payload)))
		return l.send(ctx, command, payload)
	}, g.links...)
}

// maxCommand limits a command's size.
const maxCommand = 8 << 30

// Next waits, as long as rank 0 lives, for a command of rank 0.
func (g *Communicator) Next(ctx context.Context) (payload []byte, err error) {
	err = g.do(ctx, func(ctx context.Context, l *Link) error {
		payload, err = l.receive(ctx, command, maxCommand, 0)
		return err
	}, g.links[0])
	return payload, err
}

// Sent returns the number of bytes that this rank has sent to others.
func (g *Communicator) Sent() int64 {
	if g == nil {
		return 0
	}
	return g.sent.Load()
}

// Waited returns how long calls of Gather have waited until every other rank had begun to send.
func (g *Communicator) Waited() time.Duration {
	if g == nil {
		return 0
	}
	return time.Duration(g.waited.Load())
}

var _ io.Closer = (*Communicator)(nil)
