package vlmtest

import (
	"context"
	"errors"
	"testing"

	"vagen/policy/vlm/internal/mpi"
	"vagen/policy/vlm/internal/mpi/mpitest"
	"vagen/policy/vlm/internal/nodes"
)

// Rank is a rank of this process that follows another.
type Rank struct {
	Stop  context.CancelFunc
	Ended chan error
	State map[string]string // Digests after following
}

// Ranks starts all ranks of several but the first, whose world it returns.
func Ranks(
	t testing.TB, count int, follow func(ctx context.Context, w mpi.World) (state map[string]string, err error),
) (mpi.World, []*Rank) {
	worlds := mpitest.Worlds(count)
	var out []*Rank
	for _, w := range worlds[1:] {
		ctx, cancel := context.WithCancel(t.Context())
		r := &Rank{Stop: cancel, Ended: make(chan error, 1)}
		go func() {
			var err error
			r.State, err = follow(ctx, w)
			r.Ended <- err
		}()
		out = append(out, r)
	}
	return worlds[0], out
}

// Lead opens a model as rank 0 of several, and the others, which follow. With a count of 1 it is Open.
func Lead(t testing.TB, dir string, o Options, count int) (*Model, []*Rank) {
	t.Helper()
	if count == 1 {
		return Open(t, dir, o), nil
	}
	lead := o
	var out []*Rank
	lead.World, out = Ranks(t, count, func(ctx context.Context, w mpi.World) (map[string]string, error) {
		theirs := o
		theirs.World = w
		m, err := TryOpen(ctx, dir, theirs)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		if err := m.Sets.Follow(ctx); !errors.Is(err, nodes.ErrEnded) {
			return nil, m.Sets.Peers.Failed(err)
		}
		return Digests(m.Sets)
	})
	return Open(t, dir, lead), out
}
