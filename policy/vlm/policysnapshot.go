package vlm

import (
	"context"
	"fmt"

	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// lent is a policy with weights of its own and conversations of its own. It shares
// the device, and what was compiled for it, with the model that it was lent by.
type lent struct {
	m   *Model
	own []*device.Array // copied weights
}

var (
	_ policy.Lender  = (*Model)(nil)
	_ policy.Counter = (*lent)(nil)
)

// Lend implements policy.Lender. It takes four bytes on the device for each weight
// that is trained, until Close; weights that are not trained are shared, so that
// with adapters a copy takes little. Executions of both take turns on the device.
// Restore and Tie end the sharing: what was lent before fails from then on.
func (m *Model) Lend(ctx context.Context) (policy.Lent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	l := &lent{m: &Model{
		opts: m.opts, dir: m.dir, dev: m.dev, cfg: m.cfg, tok: m.tok, chat: m.chat, proc: m.proc, net: m.net,
		pictures: m.pictures, chats: map[uint64]*conversation{},
	}}
	weights := &tensors{groups: m.actor.weights.groups}
	for g, group := range weights.groups {
		arrays := make([]*device.Array, len(group.Params))
		for i, p := range group.Params {
			from := m.actor.weights.arrays[g][i]
			if arrays[i] = from; p.Frozen {
				continue
			}
			a, err := duplicate(ctx, m.dev, from, p)
			if err != nil {
				device.FreeAll(l.own...)
				return nil, fmt.Errorf("vlm: lend: %w", err)
			}
			arrays[i], l.own = a, append(l.own, a)
		}
		weights.arrays = append(weights.arrays, arrays)
	}
	l.m.actor = newLearner(m.net, weights, m.actor.names)
	return l, nil
}

// duplicate copies a parameter by way of the host.
func duplicate(ctx context.Context, d *device.Device, a *device.Array, p model.Param) (*device.Array, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	x, err := device.ReadNew[float32](a)
	if err != nil {
		return nil, err
	}
	return device.Put(d, x, p.Dims...)
}

// Generate implements policy.Policy.
func (l *lent) Generate(ctx context.Context, prompts []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	return l.m.Generate(ctx, prompts, s)
}

// Forget implements policy.Policy.
func (l *lent) Forget(keys ...uint64) { l.m.Forget(keys...) }

// Count implements policy.Counter.
func (l *lent) Count(p policy.Prompt) (int, error) { return l.m.Count(p) }

// Close implements policy.Lent.
func (l *lent) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.m.closed = true
	l.m.dropSessions()
	device.FreeAll(l.own...)
	l.own = nil
	return nil
}
