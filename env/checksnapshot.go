package env

import (
	"bytes"
	"context"
	"errors"
	"slices"
)

// snapshots plays an episode, and then plays its rest again from a snapshot before each of its
// turns, alternately in two instances. Environments without snapshots are skipped.
func (c *checker) snapshots() error {
	a, err := c.create()
	if err != nil {
		return err
	}
	defer c.close(a)
	s, ok := a.(Snapshotter)
	if !ok {
		return nil
	}
	c.seed, c.turn = c.o.Seeds[0], -1
	if _, err, ok = c.snapshot(s); ok && err == nil {
		c.fault("snapshot", "Snapshot before Reset returned no error")
	}
	plain, ok, err := c.play(a, c.seed)
	if err != nil || !ok {
		return err
	}
	if _, err, ok = c.reset("Reset", a); err != nil || !ok {
		return err
	}
	if _, err, ok = c.snapshot(s); !ok || errors.Is(err, ErrNoSnapshot) {
		return nil
	}
	var states [][]byte
	var ep episode
	if ok, err = c.turns(a, 0, &ep, func() { states = append(states, c.saved(s)) }); err != nil || !ok {
		return err
	}
	c.same(0, plain, ep, "after snapshots were made")
	b, err := c.create()
	if err != nil {
		return err
	}
	defer c.close(b)
	for k, state := range states {
		e, what := a, "in the same instance"
		if k%2 == 0 {
			e, what = b, "in another instance"
		}
		if c.turn = k; state == nil || !c.restored(e.(Snapshotter), state, what) {
			continue
		}
		if k == len(states)/2 {
			c.damaged(e.(Snapshotter), state)
		}
		var rest episode
		if ok, err := c.turns(e, k, &rest, nil); err != nil || !ok {
			return err
		}
		want := ep.turns[min(k, len(ep.turns)):] // it may end with a turn beyond the episode's end
		rest.turns = rest.turns[:min(len(rest.turns), len(want))]
		c.same(k, episode{turns: want}, rest, "after Restore "+what)
	}
	return nil
}

// snapshot calls Snapshot.
func (c *checker) snapshot(s Snapshotter) ([]byte, error, bool) {
	return guard(c, "Snapshot", func(context.Context) ([]byte, error) { return s.Snapshot() })
}

// saved returns a snapshot, nil after an error.
func (c *checker) saved(s Snapshotter) []byte {
	state, err, ok := c.snapshot(s)
	if ok && err != nil {
		c.fault("snapshot", "Snapshot failed: %v", err)
	}
	return slices.Clone(state)
}

// restored restores a snapshot and reports whether it could.
func (c *checker) restored(s Snapshotter, state []byte, what string) bool {
	err, ok := c.do("Restore", func(ctx context.Context) error { return s.Restore(ctx, state) })
	if ok && err != nil {
		c.fault("snapshot", "Restore %s failed: %v", what, err)
	}
	if !ok || err != nil {
		return false
	}
	if again := c.saved(s); !bytes.Equal(state, again) {
		c.fault("snapshot", "Snapshot after Restore %s gives %d other bytes", what, len(again))
	}
	return true
}

// damaged restores damaged copies of a snapshot of the state that an environment has.
func (c *checker) damaged(s Snapshotter, state []byte) {
	flipped := slices.Clone(state)
	for i := range flipped {
		flipped[i] ^= 0x20
	}
	for _, bad := range [][]byte{{}, state[:len(state)/2], state[:len(state)-min(1, len(state))], flipped,
		slices.Concat(state, state), []byte("{}")} {
		err, ok := c.do("Restore of damaged bytes", func(ctx context.Context) error { return s.Restore(ctx, bad) })
		if ok && !errors.Is(err, ErrSnapshot) {
			c.fault("snapshot", "Restore of %s returned %v, must wrap ErrSnapshot", excerpt(string(bad)), err)
		}
	}
	if again := c.saved(s); !bytes.Equal(state, again) {
		c.fault("snapshot", "Restore of damaged bytes changed the state")
	}
}

// same compares turns from a number on.
func (c *checker) same(from int, was, is episode, what string) {
	is.system, is.first = was.system, was.first
	was.compare(is, func(turn int, detail string) {
		c.turn = from + turn
		c.fault("snapshot", "%s: %s", what, detail)
	})
}
