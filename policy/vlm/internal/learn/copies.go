package learn

import (
	"context"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// OnBase reports whether a learner shares the policy's base weights.
func (l *Learner) OnBase() bool { return l.Weights.Shares(0, 0) }

// CopyAdapters replaces the adapters by those of another learner, which must have all of
// them. If copying fails, nothing changes.
func (l *Learner) CopyAdapters(ctx context.Context, other *Learner) error {
	from := map[string]*device.Array{}
	for gi, g := range other.Weights.Groups {
		for i, p := range g.Params {
			from[p.Parts[0].Name] = other.Weights.Arrays[gi][i]
		}
	}
	var fresh []*device.Array
	err := l.Weights.EachAdapter(func(gi, i int, p model.Param) error {
		a, err := Duplicate(ctx, l.Weights.Arrays[gi][i].Device(), from[p.Parts[0].Name], p)
		if err == nil {
			fresh = append(fresh, a)
		}
		return err
	})
	if err != nil {
		device.FreeAll(fresh...)
		return err
	}
	err = l.Weights.EachAdapter(func(gi, i int, _ model.Param) error {
		l.Weights.Put(gi, i, fresh[0])
		fresh = fresh[1:]
		return nil
	})
	if err != nil {
		return err
	}
	return l.spread(func(p model.Param) bool { return p.Adapter })
}

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
