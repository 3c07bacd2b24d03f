package vlm

import (
	"context"
	"fmt"
	"os"
	"slices"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/weights"
)

// With adapters, the base weights never change. Policy, critic and reference then share
// the same arrays, which the policy owns.

// base returns the policy's weights without its adapters by the name of their first part;
// nil without adapters.
func (m *Model) base() map[string]*device.Array {
	if m.adapter == nil {
		return nil
	}
	base := map[string]*device.Array{}
	w := m.actor.Weights
	for gi, g := range w.Groups {
		for i, p := range g.Params {
			if p.Frozen && !p.Adapter {
				base[p.Parts[0].Name] = w.Arrays[gi][i]
			}
		}
	}
	return base
}

// sameFolder reports whether two paths name the same folder.
func sameFolder(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// newReference returns the policy without its adapters: they are replaced by zeros, one
// array per shape. It owns no arrays.
func (m *Model) newReference() (*learn.Learner, error) {
	from := m.actor.Weights
	t := &weights.Tensors{Groups: from.Groups}
	m.zeroAdapters = map[string]*device.Array{}
	for gi, g := range from.Groups {
		arrays, shared := slices.Clone(from.Arrays[gi]), make([]bool, len(g.Params))
		for i, p := range g.Params {
			shared[i] = true
			if !p.Adapter {
				continue
			}
			key := fmt.Sprint(p.Dims)
			if m.zeroAdapters[key] == nil {
				a, err := device.Put(m.dev, make([]float32, p.Size()), p.Dims...)
				if err != nil {
					return nil, err
				}
				m.zeroAdapters[key] = a
			}
			arrays[i] = m.zeroAdapters[key]
		}
		t.Arrays, t.Shared = append(t.Arrays, arrays), append(t.Shared, shared)
	}
	return learn.New(m.net, t, m.actor.Names), nil
}

func (m *Model) freeZeroAdapters() {
	for _, a := range m.zeroAdapters {
		a.Free()
	}
	m.zeroAdapters = nil
}

// Tie sets the reference policy, if there is one, and a separate critic's trunk to the
// current policy. Reinforcement learning starts from this state after imitation. With
// adapters, the reference becomes the model with a frozen copy of the policy's adapter
// instead of none, and the critic's adapter becomes the policy's. A critic on another
// model's weights is then an error: its weights would have to change, but checkpoints
// contain only adapters. Checkpoints do not contain the reference.
func (m *Model) Tie(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if err := m.checkTie(); err != nil {
		return err
	}
	if err := m.order(ctx, &order{Tie: true}, nil); err != nil {
		return err
	}
	return m.group.Failed(m.tie(m.group.Whole(ctx)))
}

// tie is Tie on this node.
func (m *Model) tie(ctx context.Context) error {
	if m.adapter != nil {
		return m.tieAdapters(ctx)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.ref != nil && m.opts.ReferencePath == "" {
		if err := m.ref.OnDevices(true, func() error { return m.ref.CopyFrom(m.actor) }); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil || m.critic == nil {
		return err
	}
	return m.critic.OnDevices(true, func() error { return m.critic.CopyFrom(m.actor) })
}

// checkTie returns an error if the weights cannot be tied.
func (m *Model) checkTie() error {
	if m.adapter != nil && m.critic != nil && !m.critic.OnBase() {
		return fmt.Errorf("vlm: tie: %w: the critic's base weights (%s) are not the policy's", ErrOption, m.opts.CriticPath)
	}
	return nil
}

// tieAdapters is tie where only adapters differ.
func (m *Model) tieAdapters(ctx context.Context) error {
	if m.ref != nil && m.opts.ReferencePath == "" {
		err := m.ref.OnDevices(true, func() error { return m.ref.CopyAdapters(ctx, m.actor) })
		if err != nil {
			return fmt.Errorf("vlm: tie: %w", err)
		}
		m.freeZeroAdapters()
	}
	if m.critic == nil {
		return nil
	}
	err := m.critic.OnDevices(true, func() error { return m.critic.CopyAdapters(ctx, m.actor) })
	if err != nil {
		return fmt.Errorf("vlm: tie: %w", err)
	}
	return nil
}
