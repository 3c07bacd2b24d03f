package nodes

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrConfig is wrapped by errors about a Config, and about nodes that do not fit each other.
	ErrConfig = errors.New("bad setting")
	// ErrLost is wrapped by errors about a node that cannot be reached any more.
	ErrLost = errors.New("the node is lost")
	// ErrFailed is wrapped by errors that another node reported.
	ErrFailed = errors.New("it failed")
	// ErrProtocol is wrapped by errors about data that a node of this version does not send.
	ErrProtocol = errors.New("protocol error")
)

// Group is a node's connections to all others. The first error ends it on all nodes.
type Group struct {
	id    int
	links []*Link // by node; nil for this one

	sent   atomic.Int64
	waited atomic.Int64 // nanoseconds
	mu     sync.Mutex
	err    error // why the group ended
}

// ID returns this node's number.
func (g *Group) ID() int { return g.id }

// Nodes returns the number of nodes.
func (g *Group) Nodes() int { return len(g.links) }

// Err returns why the group ended; nil while it works.
func (g *Group) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Fail ends the group on all nodes because of err. It returns the first error that ended it.
func (g *Group) Fail(err error) error {
	return g.close(err, failure, err.Error())
}

// Close ends the group; on node 0 the other nodes' Next returns ErrEnded.
func (g *Group) Close() error {
	if g.id == 0 {
		g.close(ErrEnded, end, "")
	} else {
		g.close(ErrEnded, failure, "the process ended")
	}
	return nil
}

func (g *Group) close(err error, k kind, text string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return g.err
	}
	g.err = err
	var wg sync.WaitGroup
	for _, l := range g.links {
		if l == nil {
			continue
		}
		wg.Go(func() { l.farewell(k, text) })
	}
	wg.Wait()
	return err
}

// transfer sends to or receives from a node. It must use ctx, which ends when the group does.
type transfer func(ctx context.Context, l *Link) error

// do calls f for other nodes at the same time, unless the group has ended. An error ends it.
func (g *Group) do(ctx context.Context, f transfer, links ...*Link) error {
	if err := g.Err(); err != nil {
		return err
	}
	links = slices.DeleteFunc(slices.Clone(links), func(l *Link) bool { return l == nil })
	if err := together(ctx, links, f); err != nil {
		return g.Fail(err)
	}
	return nil
}

// together calls f for links at the same time. The first error interrupts the others and is
// returned: they would wait until their deadlines.
func together(ctx context.Context, links []*Link, f transfer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var first sync.Once
	var failed error
	var wg sync.WaitGroup
	for _, l := range links {
		wg.Go(func() {
			stop := l.watch(ctx)
			defer stop()
			if err := f(ctx, l); err != nil {
				first.Do(func() { failed = err })
				cancel(err)
			}
		})
	}
	wg.Wait()
	return failed
}

// both sends to a node and receives from it at the same time.
func both(send, receive transfer) transfer {
	return func(ctx context.Context, l *Link) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop := l.watch(ctx)
		defer stop()
		var first sync.Once
		var failed error
		var wg sync.WaitGroup
		for _, f := range []transfer{send, receive} {
			wg.Go(func() {
				if err := f(ctx, l); err != nil {
					first.Do(func() { failed = err })
					cancel(err)
				}
			})
		}
		wg.Wait()
		return failed
	}
}

// Gather sends own to all nodes and returns what each node sent, of at most most bytes.
func (g *Group) Gather(ctx context.Context, own []byte, most int64) ([][]byte, error) {
	out := make([][]byte, len(g.links))
	out[g.id] = own
	start := time.Now()
	waited := make([]time.Duration, len(g.links)) // until a node had begun to send
	send := func(ctx context.Context, l *Link) error { return l.Send(ctx, own) }
	receive := func(ctx context.Context, l *Link) error {
		n, err := l.header(ctx, data, l.timeout)
		if err != nil {
			return err
		}
		waited[l.node] = time.Since(start)
		out[l.node], err = l.payload(ctx, n, most)
		return err
	}
	err := g.do(ctx, both(send, receive), g.links...)
	g.waited.Add(int64(slices.Max(waited)))
	return out, err
}

// Swap sends to another node and receives from it at the same time.
func (g *Group) Swap(ctx context.Context, partner int, send, receive func(ctx context.Context, l *Link) error) error {
	return g.do(ctx, both(send, receive), g.links[partner])
}

// Broadcast calls send for every other node on node 0, and receive for node 0 on the others.
func (g *Group) Broadcast(ctx context.Context, send, receive func(ctx context.Context, l *Link) error) error {
	if g.id == 0 {
		return g.do(ctx, send, g.links...)
	}
	return g.do(ctx, receive, g.links[0])
}

// Command sends a command, which Next returns there, to all other nodes.
func (g *Group) Command(ctx context.Context, payload []byte) error {
	return g.do(ctx, func(ctx context.Context, l *Link) error {
		l.sent.Add(int64(len(payload)))
		return l.send(ctx, command, payload, l.timeout)
	}, g.links...)
}

// maxCommand limits a command's size.
const maxCommand = 8 << 30

// Next waits, without a limit of time, for a command of node 0.
func (g *Group) Next(ctx context.Context) (payload []byte, err error) {
	err = g.do(ctx, func(ctx context.Context, l *Link) error {
		payload, err = l.receive(ctx, command, maxCommand, 0)
		return err
	}, g.links[0])
	return payload, err
}

// Sent returns the number of bytes that this node has sent to others.
func (g *Group) Sent() int64 { return g.sent.Load() }

// Waited returns how long calls of Gather have waited until every other node had begun to send.
func (g *Group) Waited() time.Duration { return time.Duration(g.waited.Load()) }

var _ io.Closer = (*Group)(nil)
