package vlmtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/mpi/mpitest"
	"vagen/policy/vlm/internal/nodes"
	"vagen/policy/vlm/internal/weights"
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

// Digests are those of weights and moments.
func Digests(s *learn.Sets) (map[string]string, error) {
	out := map[string]string{}
	for name, l := range map[string]*learn.Learner{"actor": s.Actor, "critic": s.Critic, "reference": s.Ref} {
		if l == nil {
			continue
		}
		all := []*weights.Tensors{l.Weights}
		if l.Adam != nil {
			all = append(all, l.Adam.M, l.Adam.V)
		}
		h := sha256.New()
		for _, x := range all {
			err := x.Each(func(part model.Stored, values []float32) error {
				_, err := fmt.Fprint(h, part.Name, values)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		out[name] = fmt.Sprintf("%x", h.Sum(nil))
	}
	return out, nil
}
