package vlmtest

import (
	"context"
	"testing"

	"vagen/policy/vlm/internal/mpi"
	"vagen/policy/vlm/internal/mpi/mpitest"
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
