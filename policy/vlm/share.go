package vlm

import (
	"context"
	"fmt"
	"os"
	"slices"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
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
	w := m.actor.weights
	for gi, g := range w.Groups {
		for i, p := range g.Params {
			if p.Frozen && !p.Adapter {
				base[p.Parts[0].Name] = w.Arrays[gi][i]
			}
		}
	}
	return base
}

// onBase reports whether a learner shares the policy's base weights.
func (l *learner) onBase() bool { return l.weights.Shares(0, 0) }

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
func (m *Model) newReference() (*learner, error) {
	from := m.actor.weights
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
	return newLearner(m.net, t, m.actor.names), nil
}

func (m *Model) freeZeroAdapters() {
	for _, a := range m.zeroAdapters {
		a.Free()
	}
	m.zeroAdapters = nil
}

// copyAdapters replaces the adapters by those of another learner, which must have all of
// them. If copying fails, nothing changes.
func (l *learner) copyAdapters(ctx context.Context, other *learner) error {
	from := map[string]*device.Array{}
	for gi, g := range other.weights.Groups {
		for i, p := range g.Params {
			from[p.Parts[0].Name] = other.weights.Arrays[gi][i]
		}
	}
	var fresh []*device.Array
	err := l.weights.EachAdapter(func(gi, i int, p model.Param) error {
		a, err := duplicate(ctx, l.weights.Arrays[gi][i].Device(), from[p.Parts[0].Name], p)
		if err == nil {
			fresh = append(fresh, a)
		}
		return err
	})
	if err != nil {
		device.FreeAll(fresh...)
		return err
	}
	err = l.weights.EachAdapter(func(gi, i int, _ model.Param) error {
		l.weights.Put(gi, i, fresh[0])
		fresh = fresh[1:]
		return nil
	})
	if err != nil {
		return err
	}
	return l.spread(func(p model.Param) bool { return p.Adapter })
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
	return m.group.failed(m.tie(m.group.whole(ctx)))
}

// tie is Tie on this node.
func (m *Model) tie(ctx context.Context) error {
	if m.adapter != nil {
		return m.tieAdapters(ctx)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.ref != nil {
		if err := m.ref.onDevices(true, func() error { return m.ref.copyFrom(m.actor) }); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil || m.critic == nil {
		return err
	}
	return m.critic.onDevices(true, func() error { return m.critic.copyFrom(m.actor) })
}

// checkTie returns an error if the weights cannot be tied.
func (m *Model) checkTie() error {
	if m.adapter != nil && m.critic != nil && !m.critic.onBase() {
		return fmt.Errorf("vlm: tie: %w: the critic's base weights (%s) are not the policy's", ErrOption, m.opts.CriticPath)
	}
	return nil
}

// tieAdapters is tie where only adapters differ.
func (m *Model) tieAdapters(ctx context.Context) error {
	if m.ref != nil {
		err := m.ref.onDevices(true, func() error { return m.ref.copyAdapters(ctx, m.actor) })
		if err != nil {
			return fmt.Errorf("vlm: tie: %w", err)
		}
		m.freeZeroAdapters()
	}
	if m.critic == nil {
		return nil
	}
	err := m.critic.onDevices(true, func() error { return m.critic.copyAdapters(ctx, m.actor) })
	if err != nil {
		return fmt.Errorf("vlm: tie: %w", err)
	}
	return nil
}
