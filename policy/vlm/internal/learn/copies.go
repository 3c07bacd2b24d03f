package learn

import (
	"context"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// OnBase reports whether a learner shares the policy's base weights.
func (l *Learner) OnBase() bool { return l.Weights.Shares(0, 0) }

// Duplicate copies a parameter through host memory.
func Duplicate(ctx context.Context, d *device.Device, a *device.Array, p model.Param) (*device.Array, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	x, err := device.ReadNew[float32](a)
	if err != nil {
		return nil, err
	}
	return device.Put(d, x, p.Dims...)
}

// Copy copies the state that checkpoints contain to host memory.
func (l *Learner) Copy(ctx context.Context) (*Learner, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := *l
	var err error
	if c.Weights, err = l.Weights.Copy(l.stored); err != nil || l.Adam == nil {
		return &c, err
	}
	a := *l.Adam
	if a.M, err = a.M.Copy(every); err == nil {
		a.V, err = a.V.Copy(every)
	}
	c.Adam = &a
	return &c, err
}
