package learn_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"vagen/policy"
	"vagen/policy/vlm/internal/mpi"
	"vagen/policy/vlm/internal/nodes"
	. "vagen/policy/vlm/internal/vlmtest"
)

// lead opens a model as rank 0 of several, and the others, which follow. With a count of 1 it is Open.
func lead(t testing.TB, dir string, o Options, count int) (*Model, []*Rank) {
	t.Helper()
	if count == 1 {
		return Open(t, dir, o), nil
	}
	leader := o
	var out []*Rank
	leader.World, out = Ranks(t, count, func(ctx context.Context, w mpi.World) (map[string]string, error) {
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
	return Open(t, dir, leader), out
}

// pick returns some rows in another order, with the positions of their tokens.
func pick(rows policy.Rows, index ...int) (out policy.Rows, place []int) {
	out.Offsets = []int{0}
	for _, i := range index {
		from, to := rows.Offsets[i], rows.Offsets[i+1]
		out.Tokens = append(out.Tokens, rows.Tokens[from:to]...)
		out.Offsets = append(out.Offsets, len(out.Tokens))
		out.Images = append(out.Images, rows.Images[i])
		for k := from; k < to; k++ {
			place = append(place, k)
		}
	}
	return out, place
}

// changed lists the weights that differ.
func changed(before, after map[string][]float32) []string {
	var out []string
	for name, x := range before {
		if !slices.Equal(x, after[name]) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
