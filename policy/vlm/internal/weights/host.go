package weights

import (
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// NewHost returns tensors in host memory.
func NewHost(groups []*model.Group, from Source) (*Tensors, error) {
	t := &Tensors{Groups: groups, host: make([][][]float32, len(groups))}
	for gi, g := range groups {
		for _, p := range g.Params {
			dst := make([]float32, p.Size())
			if err := from.fill(p, dst); err != nil {
				return nil, err
			}
			t.host[gi] = append(t.host[gi], dst)
		}
	}
	return t, nil
}

// Borrow returns arrays on d of a group's parameters from..to, which the caller replaces by
// those of an update and then gives to giveBack.
func (t *Tensors) Borrow(d *device.Device, group, from, to int) ([]*device.Array, error) {
	if t.host == nil {
		return t.Arrays[group][from:to], nil
	}
	arrays := make([]*device.Array, 0, to-from)
	for i := from; i < to; i++ {
		a, err := device.Put(d, t.host[group][i], t.Groups[group].Params[i].Dims...)
		if err != nil {
			device.FreeAll(arrays...)
			return nil, err
		}
		arrays = append(arrays, a)
	}
	return arrays, nil
}

// GiveBack copies borrowed arrays to host memory and frees them, if that is where the tensors are.
func (t *Tensors) GiveBack(group, from int, arrays []*device.Array) error {
	if t.host == nil {
		return nil
	}
	defer device.FreeAll(arrays...)
	for k, a := range arrays {
		if err := device.Read(a, t.host[group][from+k]); err != nil {
			return err
		}
	}
	return nil
}

// Drop frees borrowed arrays that were not updated.
func (t *Tensors) Drop(arrays []*device.Array) {
	if t.host != nil {
		device.FreeAll(arrays...)
	}
}
