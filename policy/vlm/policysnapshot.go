package vlm

import (
	"context"
	"fmt"
	"slices"

	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/weights"
)

// policySnapshot is a policy with its own weights and conversations. It shares the device and the
// compiled programs with the model that created it.
type policySnapshot struct {
	policy.Policy // m, as the next three
	policy.Counter
	policy.Resumer
	policy.ToolPrompter

	m   *Model
	own []*device.Array // copied weights
}

var _ policy.PolicySnapshotter = (*Model)(nil)

// SnapshotPolicy implements policy.PolicySnapshotter. It uses four bytes on the device for each trained weight
// until Close; frozen weights are shared, so that with adapters a copy is small. The
// executions of both policies alternate on the device. After Restore or Tie an earlier copy
// fails.
func (m *Model) SnapshotPolicy(ctx context.Context) (policy.PolicySnapshot, error) {
	unlock, err := m.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	l := &policySnapshot{m: &Model{
		opts: m.opts, dir: m.dir, dev: m.dev, devices: m.devices, parts: m.parts, cfg: m.cfg, text: m.text, net: m.net,
		sets: &learn.Sets{Options: m.sets.Options},
	}}
	l.Policy, l.Counter, l.Resumer, l.ToolPrompter = l.m, l.m, l.m, l.m
	actor := m.sets.Actor
	for i, r := range actor.Replicas {
		weights, err := l.copy(ctx, r)
		if err != nil {
			device.FreeAll(l.own...)
			return nil, fmt.Errorf("vlm: policy snapshot: %w", err)
		}
		if i == 0 {
			l.m.sets.Actor = learn.New(m.net, weights, actor.Names)
			if actor.Sharded {
				l.m.sets.Actor.ShareWeights(m.devices)
				break
			}
			continue
		}
		l.m.sets.Actor.Replicas = append(l.m.sets.Actor.Replicas,
			&learn.Replica{Net: r.Net, Weights: weights, Parts: r.Net.PartsOf(weights.Arrays)})
	}
	l.m.gen = l.m.newGenerator()
	l.m.gen.Counted = m.gen.Counted // the model reports it
	return l, nil
}

// copy returns a replica's weights, of which trained ones are copied.
func (l *policySnapshot) copy(ctx context.Context, r *learn.Replica) (*weights.Tensors, error) {
	weights := &weights.Tensors{Groups: r.Weights.Groups}
	for g, group := range weights.Groups {
		arrays := slices.Clone(r.Weights.Arrays[g])
		for i, p := range group.Params {
			if p.Frozen {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			a, err := device.Copy(arrays[i], arrays[i].Device())
			if err != nil {
				return nil, err
			}
			arrays[i], l.own = a, append(l.own, a)
		}
		weights.Arrays = append(weights.Arrays, arrays)
	}
	return weights, nil
}

// Close implements policy.PolicySnapshot.
func (l *policySnapshot) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.m.closed = true
	l.m.gen.DropSessions()
	device.FreeAll(l.own...)
	l.own = nil
	return nil
}
