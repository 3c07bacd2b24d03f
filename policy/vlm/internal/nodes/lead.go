package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// process is a process that has connected to node 0.
type process struct {
	*member // nil until it has introduced itself
	link    *Link
	reading bool // a goroutine waits for its next message
	ready   bool // it has answered the round
}

// message of a process, or why it is lost.
type message struct {
	from *process
	raw  []byte
	err  error
}

// leader is node 0 until all nodes are connected. One goroutine owns it.
type leader struct {
	*server
	members  []*process // by node; nil where there is none, and for node 0
	number   int        // of the round
	messages chan message
	ended    chan struct{}
	readers  sync.WaitGroup
}

// lead waits on node 0 for all others, and returns their links when each is connected with all
// others. Whenever all are there, a round begins. A process that is lost, or whose place another
// process with its number takes, needs another round.
func (s *server) lead(ctx context.Context) ([]*Link, error) {
	l := &leader{server: s, members: make([]*process, s.Nodes), messages: make(chan message), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	err := l.gather(ctx)
	var links []*Link
	if err == nil {
		links, err = l.begin(ctx)
	}
	if err != nil {
		l.dismiss(err)
	}
	close(l.ended)
	cancel() // interrupts the readers of processes that are no members
	l.readers.Wait()
	return links, err
}

// gather returns when all members have answered a round.
func (l *leader) gather(ctx context.Context) error {
	for !l.all(func(p *process) bool { return p != nil && p.ready }) {
		select {
		case link := <-l.accepted:
			l.read(ctx, &process{link: link})
		case m := <-l.messages:
			if err := l.handle(ctx, m); err != nil {
				return err
			}
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), l.missing())
		}
	}
	return nil
}

func (l *leader) all(f func(*process) bool) bool {
	return !slices.ContainsFunc(l.members[1:], func(p *process) bool { return !f(p) })
}

// missing says for which nodes node 0 waits.
func (l *leader) missing() error {
	var absent, busy []int
	for node, p := range l.members[1:] {
		switch {
		case p == nil:
			absent = append(absent, node+1)
		case !p.ready:
			busy = append(busy, node+1)
		}
	}
	if len(absent) > 0 {
		return fmt.Errorf("nodes %v are missing", absent)
	}
	return fmt.Errorf("nodes %v are not connected with all others", busy)
}

// read waits for the next message of a process.
func (l *leader) read(ctx context.Context, p *process) {
	p.reading = true
	limit := headerTime
	if p.member != nil {
		limit = 0 // connecting may take as long as it takes
	}
	l.readers.Go(func() {
		stop := p.link.watch(ctx)
		raw, err := p.link.receive(ctx, data, maxMessage, limit)
		stop()
		select {
		case l.messages <- message{p, raw, err}:
		case <-l.ended:
			if !slices.Contains(l.members, p) { // which nothing changes any more
				p.link.hangUp()
			}
		}
	})
}

// handle reacts to a message. An error ends the group.
func (l *leader) handle(ctx context.Context, m message) error {
	p, node := m.from, m.from.link.node
	p.reading = false
	switch {
	case m.err == nil && p.member == nil:
		return l.admit(ctx, p, m.raw)
	case l.members[node] != p: // another process has replaced it, or it never introduced itself
		p.link.hangUp()
	case m.err != nil:
		l.drop(p, m.err)
	default:
		var a answer
		if err := json.Unmarshal(m.raw, &a); err != nil {
			l.drop(p, err)
			return nil
		}
		if p.ready = a.Number == l.number; !p.ready { // the answer to an earlier round
			l.read(ctx, p)
		}
	}
	return nil
}

// admit makes a process a member.
func (l *leader) admit(ctx context.Context, p *process, raw []byte) error {
	node := p.link.node
	p.member = &member{}
	if err := json.Unmarshal(raw, p.member); err != nil {
		l.Log.Warn("a process is refused", "node", node, "err", err)
		p.link.hangUp()
		return nil
	}
	if old := l.members[node]; old != nil {
		l.Log.Warn("another process replaces a node", "node", node, "was", old.Address, "is", p.Address)
		old.link.farewell(failure, fmt.Sprintf("another process has joined as node %d and replaces this one", node))
	}
	l.members[node] = p
	if err := compare(p.Facts, l.self.Facts, node, 0); err != nil {
		return err
	}
	l.Log.Info("another node is there", "node", node, "address", p.Address)
	l.next(ctx)
	return nil
}

// drop removes a member that is lost.
func (l *leader) drop(p *process, err error) {
	node := p.link.node
	l.members[node] = nil
	p.link.hangUp()
	l.Log.Warn("a node has left before the beginning; waiting for it to start again", "node", node, "err", err)
}

// next begins a round if all nodes are there.
func (l *leader) next(ctx context.Context) {
	if !l.all(func(p *process) bool { return p != nil }) {
		return
	}
	l.number++
	r := round{Number: l.number, Members: make([]member, l.Nodes)}
	for node, p := range l.members[1:] {
		r.Members[node+1] = *p.member
		r.Members[node+1].Facts = nil
		p.ready = false
	}
	for _, p := range l.members[1:] {
		if err := p.link.message(ctx, command, r); err != nil {
			l.drop(p, err)
			return
		}
		if !p.reading {
			l.read(ctx, p)
		}
	}
}

// begin ends the last round. From now on a lost process ends the group.
func (l *leader) begin(ctx context.Context) ([]*Link, error) {
	links := make([]*Link, l.Nodes)
	for node, p := range l.members[1:] {
		if err := p.link.message(ctx, command, round{Number: l.number, Begin: true}); err != nil {
			return nil, err
		}
		links[node+1] = p.link
	}
	return links, nil
}

// dismiss sends all members why the group ends.
func (l *leader) dismiss(err error) {
	var wg sync.WaitGroup
	for _, p := range l.members[1:] {
		if p != nil {
			wg.Go(func() { p.link.farewell(failure, err.Error()) })
		}
	}
	wg.Wait()
}

// message sends a value as JSON, during the rendezvous.
func (l *Link) message(ctx context.Context, k kind, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return l.send(ctx, k, raw, headerTime)
}
