package learn

import (
	"context"
	"fmt"
	"slices"

	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/weights"
)

// With adapters, the base weights never change. Policy, critic and reference then share
// the same arrays, which the policy owns.

// base returns the policy's weights without its adapters by the name of their first part;
// nil without adapters.
func (s *Sets) base() map[string]*device.Array {
	if s.Adapter == nil {
		return nil
	}
	base := map[string]*device.Array{}
	w := s.Actor.Weights
	for gi, g := range w.Groups {
		for i, p := range g.Params {
			if p.Frozen && !p.Adapter {
				base[p.Parts[0].Name] = w.Arrays[gi][i]
			}
		}
	}
	return base
}

// newReference returns the policy without its adapters: they are replaced by zeros, one
// array per shape. It owns no arrays.
func (s *Sets) newReference() (*Learner, error) {
	from := s.Actor.Weights
	t := &weights.Tensors{Groups: from.Groups}
	s.Zeros = map[string]*device.Array{}
	for gi, g := range from.Groups {
		arrays, shared := slices.Clone(from.Arrays[gi]), make([]bool, len(g.Params))
		for i, p := range g.Params {
			shared[i] = true
			if !p.Adapter {
				continue
			}
			key := fmt.Sprint(p.Dims)
			if s.Zeros[key] == nil {
				a, err := device.Put(s.Devices[0], make([]float32, p.Size()), p.Dims...)
				if err != nil {
					return nil, err
				}
				s.Zeros[key] = a
			}
			arrays[i] = s.Zeros[key]
		}
		t.Arrays, t.Shared = append(t.Arrays, arrays), append(t.Shared, shared)
	}
	return New(s.Net, t, s.Actor.Names), nil
}

func (s *Sets) freeZeros() {
	for _, a := range s.Zeros {
		a.Free()
	}
	s.Zeros = nil
}

// Tie sets the reference and a separate critic's trunk to the policy, on all ranks: see vlm.Model.Tie.
func (s *Sets) Tie(ctx context.Context) error {
	if s.Adapter != nil && s.Critic != nil && !s.Critic.OnBase() {
		return fmt.Errorf("vlm: tie: %w: the critic's base weights (%s) are not the policy's",
			backend.ErrOption, s.CriticOptions.Dir)
	}
	if err := s.send(ctx, &command{Tie: true}, nil); err != nil {
		return err
	}
	return s.Peers.Failed(s.tie(s.Peers.Whole(ctx)))
}

// tie is Tie on this rank. The programs of training before it, such as imitation, are often not those of training
// after it, and take a megabyte and more each.
func (s *Sets) tie(ctx context.Context) error {
	s.Devices[0].FreeIdle()
	want := every
	if s.Adapter != nil { // only these differ
		want = func(p model.Param) bool { return p.Adapter }
	}
	for _, l := range []*Learner{s.Ref, s.Critic} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if l == nil || l == s.Ref && s.Teacher != nil {
			continue
		}
		err := l.OnDevices(true, func() error { return l.CopyFrom(s.Actor, want) })
		if err != nil {
			return fmt.Errorf("vlm: tie: %w", err)
		}
		if l == s.Ref {
			s.freeZeros()
		}
	}
	return nil
}
