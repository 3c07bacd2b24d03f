package vlmtest

import (
	"context"
	"errors"
	"testing"

	"vagen/policy/vlm/internal/mpi/mpitest"
	"vagen/policy/vlm/internal/nodes"
)

// Rank is a rank of this process that follows another.
type Rank struct {
	Stop  context.CancelFunc
	Ended chan error
	State map[string]string // StateOf after following
}

// Lead opens a model as rank 0 of several, and the others, which follow. With a count of 1 it is Open.
func Lead(t testing.TB, dir string, o Options, count int) (*Model, []*Rank) {
	t.Helper()
	if count == 1 {
		return Open(t, dir, o), nil
	}
	worlds := mpitest.Worlds(count)
	var out []*Rank
	for _, w := range worlds[1:] {
		theirs := o
		theirs.World = w
		ctx, cancel := context.WithCancel(t.Context())
		r := &Rank{Stop: cancel, Ended: make(chan error, 1)}
		go func() { r.Ended <- r.follow(ctx, t, dir, theirs) }()
		out = append(out, r)
	}
	o.World = worlds[0]
	return Open(t, dir, o), out
}

func (r *Rank) follow(ctx context.Context, t testing.TB, dir string, o Options) error {
	m, err := TryOpen(ctx, dir, o)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.Sets.Follow(ctx); !errors.Is(err, nodes.ErrEnded) {
		return m.Sets.Peers.Failed(err)
	}
	r.State, err = Digests(m.Sets)
	return err
}
