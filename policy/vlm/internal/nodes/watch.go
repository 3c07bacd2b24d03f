package nodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vagen/policy/vlm/internal/mpi"
)

// Signs of life, the first byte of messages with tagLife.
const (
	alive  = iota + 1
	failed // the text of an error follows
	leaves // the last message of a rank that ends in order
)

// Tags of messages.
const tagFrame, tagLife = 1, 2

// maxText limits the text of an error of another rank, in bytes.
const maxText = 4 << 10

const (
	// tick is the time between looks at the signs of life.
	tick = 50 * time.Millisecond
	// goodbye limits the time in which a rank that fails tells the others why.
	goodbye = time.Second
)

// peer is what the goroutine of watch knows of another rank.
type peer struct {
	world mpi.World
	rank  int
	buf   []byte      // of a sign
	heard mpi.Request // of the next sign; nil before the first, and after the last
	said  mpi.Request // of the last sign to it
	seen  time.Time   // when its last sign came; zero before the first

	left    bool  // its last sign has come
	failure error // that it reported
	parted  bool  // the last sign to it was sent
}

// watch tells the other ranks that this one lives, and ends the group if one of them fails or is silent. When the
// group ends, it tells them so.
func (g *Communicator) watch(peers []*peer) {
	defer close(g.watched)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var told time.Time
	for g.life.Err() == nil {
		now := time.Now()
		tell := now.Sub(told) >= g.silence/8
		if tell {
			told = now
		}
		for _, p := range peers {
			err := p.listen()
			if err == nil && !p.left && !p.seen.IsZero() && now.Sub(p.seen) > g.silence {
				err = fmt.Errorf("rank %d gave no sign of life for %v: it has died, stands still or is cut off: %w",
					p.rank, g.silence, ErrLost)
			}
			if err == nil && tell {
				_, err = p.say(alive, "")
			}
			if err != nil {
				g.fail(fmt.Errorf("nodes: %w", err))
			}
		}
		select {
		case <-ticker.C:
		case <-g.life.Done():
		}
	}
	g.parted = g.part(peers)
}

// listen receives the signs of a peer that have come. It returns the failure that the peer reports.
func (p *peer) listen() error {
	for p.failure == nil && !p.left {
		if p.heard == nil {
			var err error
			if p.heard, err = p.world.Receive(p.buf, p.rank, tagLife); err != nil {
				return p.lost(err)
			}
		}
		n, done, err := p.heard.Test()
		switch {
		case err != nil:
			return p.lost(err)
		case !done:
			return nil
		}
		p.heard, p.seen, p.left = nil, time.Now(), p.buf[0] == leaves
		if p.buf[0] == failed {
			p.failure = fmt.Errorf("rank %d: %w: %s", p.rank, ErrFailed, p.buf[1:max(n, 1)])
		}
	}
	return p.failure
}

// say sends a sign to a peer, unless the last one is still on its way.
func (p *peer) say(sign byte, text string) (started bool, err error) {
	if idle, err := p.idle(); !idle {
		return false, err
	}
	p.said, err = p.world.Send(append([]byte{sign}, text[:min(len(text), maxText)]...), p.rank, tagLife)
	return err == nil, p.lost(err)
}

// idle reports whether no sign to the peer is on its way.
func (p *peer) idle() (bool, error) {
	if p.said == nil {
		return true, nil
	}
	_, done, err := p.said.Test()
	if done {
		p.said = nil
	}
	return done, p.lost(err)
}

func (p *peer) lost(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("rank %d: %w: %w", p.rank, ErrLost, err)
}

// part tells the peers that the group has ended. If it has ended in order, all say so to all and wait for it: then no
// message is on its way, and MPI is ended, too.
func (g *Communicator) part(peers []*peer) error {
	cause := context.Cause(g.life)
	sign, text, limit := byte(failed), cause.Error(), goodbye
	inOrder := errors.Is(cause, ErrEnded)
	switch {
	case inOrder:
		sign, text, limit = leaves, "", g.silence
	case errors.Is(cause, ErrFailed): // the rank that failed tells all
		limit = 0
	}
	err := errors.New("not all ranks have ended")
	for start := time.Now(); err != nil && !errors.Is(err, ErrFailed) && time.Since(start) < limit; {
		time.Sleep(time.Millisecond)
		err = nil
		for _, p := range peers {
			err = errors.Join(err, p.farewell(sign, text, inOrder))
		}
	}
	for _, p := range peers {
		for _, r := range []mpi.Request{p.heard, p.said} {
			if r != nil {
				r.Cancel()
			}
		}
	}
	if !inOrder || err != nil { // MPI_Finalize would wait for a rank that is lost
		return err
	}
	done := make(chan error, 1)
	go func() { done <- g.world.Finalize() }()
	select {
	case err := <-done:
		return err
	case <-time.After(g.silence):
		return fmt.Errorf("MPI_Finalize took longer than %v", g.silence)
	}
}

// farewell says the last sign to a peer, once, and listens. The error says what is still to be done.
func (p *peer) farewell(sign byte, text string, inOrder bool) error {
	var err error
	if !p.parted {
		p.parted, err = p.say(sign, text)
	}
	if inOrder {
		err = errors.Join(err, p.listen())
	}
	idle, lost := p.idle()
	if err := errors.Join(err, lost); err != nil {
		return err
	}
	if !p.parted || !idle || inOrder && !p.left {
		return fmt.Errorf("rank %d has not answered", p.rank)
	}
	return nil
}
