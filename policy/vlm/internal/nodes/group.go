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

	sent atomic.Int64
	mu   sync.Mutex
	err  error // why the group ended
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

// goodbye limits the time in which a node that ends sends the reason to another.
const goodbye = time.Second

// Fail ends the group on all nodes because of err. It returns the first error that ended it.
func (g *Group) Fail(err error) error {
	text := err.Error()
	return g.close(err, failure, []byte(text[:min(len(text), maxText)]))
}

// Close ends the group; on node 0 the other nodes' Next returns ErrEnded.
func (g *Group) Close() error {
	if g.id == 0 {
		g.close(ErrEnded, end, nil)
	} else {
		g.close(ErrEnded, failure, []byte("the process ended"))
	}
	return nil
}

func (g *Group) close(err error, k kind, text []byte) error {
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
		wg.Go(func() {
			// A sender in another goroutine, if there is one, fails or ends within this time.
			l.conn.SetDeadline(time.Now().Add(goodbye))
			l.mu.Lock()
			whole := !l.partial
			l.mu.Unlock()
			if whole {
				l.send(context.Background(), k, text, goodbye)
			}
			l.conn.Close()
		})
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
	send := func(ctx context.Context, l *Link) error { return l.Send(ctx, own) }
	receive := func(ctx context.Context, l *Link) (err error) {
		out[l.node], err = l.Receive(ctx, most)
		return err
	}
	return out, g.do(ctx, both(send, receive), g.links...)
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

var _ io.Closer = (*Group)(nil)
