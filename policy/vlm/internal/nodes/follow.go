package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
)

// dialled is the result of connecting to a node.
type dialled struct {
	round int
	link  *Link
	err   error
}

// follower is a node with another number than 0 until all nodes are connected. One goroutine owns it.
type follower struct {
	*server
	first   *Link            // to node 0
	round   round            // the newest one
	links   []*Link          // of the round, by node
	offered map[string]*Link // by instance: links that other processes have made
	replied bool             // the round is answered

	rounds  chan round
	failed  chan error // why the connection to node 0 ended
	results chan dialled
	cancel  context.CancelFunc // of the round's attempts to connect
	workers sync.WaitGroup
}

// follow connects to node 0 and, in each of its rounds, to all other nodes.
func (s *server) follow(ctx context.Context) ([]*Link, error) {
	host, _, err := net.SplitHostPort(s.Coordinator)
	if err != nil {
		return nil, err
	}
	f := &follower{
		server: s, links: make([]*Link, s.Nodes), offered: map[string]*Link{}, cancel: func() {},
		rounds: make(chan round), failed: make(chan error, 1), results: make(chan dialled),
	}
	err = s.retry(ctx, 0, func() (err error) {
		f.first, err = s.dial(ctx, 0, member{Address: s.Coordinator, Host: host})
		return err
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	err = f.first.message(ctx, data, s.self)
	if err == nil {
		f.workers.Go(func() { f.listen(ctx) })
		err = f.connect(ctx)
	}
	f.end(cancel, err)
	return f.links, err
}

// connect handles what happens until node 0 begins.
func (f *follower) connect(ctx context.Context) error {
	for {
		select {
		case r := <-f.rounds:
			if r.Begin {
				f.collect()
				return nil
			}
			if err := f.start(ctx, r); err != nil {
				return err
			}
		case l := <-f.accepted:
			f.offer(l)
		case d := <-f.results:
			switch {
			case d.round != f.round.Number:
				d.hangUp()
			case d.err != nil:
				return d.err
			default:
				f.links[d.link.node] = d.link
			}
		case err := <-f.failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := f.reply(ctx); err != nil {
			return err
		}
	}
}

func (d *dialled) hangUp() {
	if d.err == nil {
		d.link.hangUp()
	}
}

// collect handles the links that were made before node 0 began: one may replace an earlier one.
func (f *follower) collect() {
	for {
		select {
		case l := <-f.accepted:
			f.offer(l)
		default:
			return
		}
	}
}

// listen receives the rounds of node 0.
func (f *follower) listen(ctx context.Context) {
	for {
		stop := f.first.watch(ctx)
		raw, err := f.first.receive(ctx, command, maxMessage, 0)
		stop() // the end of ctx must not interrupt the group
		var r round
		if err == nil {
			err = json.Unmarshal(raw, &r)
		}
		if err == nil && !r.Begin && len(r.Members) != f.Nodes {
			err = fmt.Errorf("node 0 sent a list of %d nodes, expected %d: %w", len(r.Members), f.Nodes, ErrProtocol)
		}
		if err != nil {
			f.failed <- err
			return
		}
		select {
		case f.rounds <- r:
		case <-ctx.Done():
			return
		}
		if r.Begin { // what follows belongs to the group
			return
		}
	}
}

// start begins a round: links to processes that are no members any more are closed, and nodes with
// smaller numbers are dialled.
func (f *follower) start(ctx context.Context, r round) error {
	if r.Members[f.ID].Instance != f.self.Instance {
		return fmt.Errorf("%w: another process has joined as node %d", ErrConfig, f.ID)
	}
	f.cancel()
	ctx, f.cancel = context.WithCancel(ctx)
	f.round, f.replied = r, false
	for node := 1; node < f.Nodes; node++ {
		if node == f.ID {
			continue
		}
		m := r.Members[node]
		if l := f.links[node]; l != nil && l.instance != m.Instance {
			l.hangUp()
			f.links[node] = nil
		}
		switch {
		case f.links[node] != nil:
		case node > f.ID:
			f.links[node] = f.offered[m.Instance]
			delete(f.offered, m.Instance)
		default:
			f.workers.Go(func() { f.reach(ctx, r.Number, node, m) })
		}
	}
	return nil
}

// reach connects to a member of a round, as long as the round lasts.
func (f *follower) reach(ctx context.Context, number, node int, m member) {
	d := dialled{round: number}
	d.err = f.retry(ctx, node, func() (err error) {
		d.link, err = f.dial(ctx, node, m)
		return err
	})
	select {
	case f.results <- d:
	case <-ctx.Done():
		d.hangUp()
	}
}

// offer keeps a link that another process has made, for this round or a later one. A process that
// tries again uses the last link only.
func (f *follower) offer(l *Link) {
	now := len(f.round.Members) > 0 && f.round.Members[l.node].Instance == l.instance
	old := f.offered[l.instance]
	if now {
		old = f.links[l.node]
	}
	if old != nil {
		if old.attempt > l.attempt {
			l.hangUp()
			return
		}
		old.hangUp()
	}
	if now {
		f.links[l.node] = l
	} else {
		f.offered[l.instance] = l
	}
}

// reply answers the round once all others are connected.
func (f *follower) reply(ctx context.Context) error {
	if f.replied || f.round.Number == 0 {
		return nil
	}
	for node, l := range f.links {
		if l == nil && node != 0 && node != f.ID {
			return nil
		}
	}
	f.replied = true
	return f.first.message(ctx, data, answer{f.round.Number})
}

// end closes what the group does not use, which is everything after an error. Node 0 receives the
// error.
func (f *follower) end(cancel context.CancelFunc, err error) {
	f.cancel()
	cancel()
	f.workers.Wait()
	for _, l := range f.offered {
		l.hangUp()
	}
	if err == nil {
		f.links[0] = f.first
		return
	}
	for _, l := range f.links {
		if l != nil {
			l.hangUp()
		}
	}
	if !errors.Is(err, ErrFailed) && !errors.Is(err, ErrLost) { // node 0 has ended otherwise
		f.first.farewell(failure, err.Error())
	}
	f.first.hangUp()
	f.links = nil
}
