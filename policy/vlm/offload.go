package vlm

import (
	"errors"
	"fmt"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

// Moments, and the weights of a reference policy and of a separate critic, can be in host memory
// while no program uses them. Moments are copied to their device for the update of their group, so
// that those of one group are there at a time. A reference is copied as a whole when it scores, and
// a critic when it scores or is updated.

// offload applies the options to the loaded weights.
func (m *Model) offload() error {
	m.actor.offloadMoments = m.opts.OffloadMoments
	if m.critic != nil {
		m.critic.offloadMoments = m.opts.OffloadCriticMoments
		if err := m.critic.offload(m.opts.OffloadCritic, m.homes); err != nil {
			return err
		}
	}
	if m.ref == nil {
		return nil
	}
	return m.ref.offload(m.opts.OffloadReference, m.homes)
}

// offload moves the learner's weights to host memory, if they belong there between calls.
func (l *learner) offload(weights bool, homes func([]*model.Group) placement) error {
	l.offloadWeights, l.home = weights, homes(l.weights.groups)
	return l.park()
}

// newHostTensors returns tensors in host memory.
func newHostTensors(groups []*model.Group, from source) (*tensors, error) {
	t := &tensors{groups: groups, host: make([][][]float32, len(groups))}
	for gi, g := range groups {
		for _, p := range g.Params {
			dst := make([]float32, p.Size())
			at := 0
			for _, part := range p.Parts {
				if err := from(g, p, part, dst[at:at+part.Size()]); err != nil {
					return nil, err
				}
				at += part.Size()
			}
			t.host[gi] = append(t.host[gi], dst)
		}
	}
	return t, nil
}

// newMoments returns the moments of the learner's trained weights, in host memory or on the
// devices that own the weights.
func (l *learner) newMoments(from source) (*tensors, error) {
	groups := net.TrainedGroups(l.weights.groups)
	if l.offloadMoments {
		return newHostTensors(groups, from)
	}
	return newTensors(l.ofOwners(), groups, nil, from)
}

// borrow returns arrays on d of a group's parameters from..to, which the caller replaces by
// those of an update and then gives to giveBack.
func (t *tensors) borrow(d *device.Device, group, from, to int) ([]*device.Array, error) {
	if t.host == nil {
		return t.arrays[group][from:to], nil
	}
	arrays := make([]*device.Array, 0, to-from)
	for i := from; i < to; i++ {
		a, err := device.Put(d, t.host[group][i], t.groups[group].Params[i].Dims...)
		if err != nil {
			device.FreeAll(arrays...)
			return nil, err
		}
		arrays = append(arrays, a)
	}
	return arrays, nil
}

// giveBack copies borrowed arrays to host memory and frees them, if that is where the tensors are.
func (t *tensors) giveBack(group, from int, arrays []*device.Array) error {
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

// drop frees borrowed arrays that were not updated.
func (t *tensors) drop(arrays []*device.Array) {
	if t.host != nil {
		device.FreeAll(arrays...)
	}
}

// onDevices calls f while the learner's weights are on the devices. changes says that f replaces
// them.
func (l *learner) onDevices(changes bool, f func() error) error {
	err := l.unpark()
	if err != nil {
		return errors.Join(err, l.park())
	}
	err = f()
	if changes {
		l.weights.parked = nil
	}
	return errors.Join(err, l.park())
}

// park moves the weights that belong to the learner to host memory, if that is where they
// are between calls.
func (l *learner) park() error {
	if !l.offloadWeights {
		return nil
	}
	if l.weights.parked == nil {
		parked := make([][][]float32, len(l.weights.groups))
		err := l.eachOwn(0, func(group, i int, p model.Param) (err error) {
			if parked[group] == nil {
				parked[group] = make([][]float32, len(l.weights.groups[group].Params))
			}
			parked[group][i], err = l.weights.read(group, i, make([]float32, p.Size()))
			return err
		})
		if err != nil {
			return err
		}
		l.weights.parked = parked
	}
	for k := range l.copies() {
		r := l.replicas[k]
		err := l.eachOwn(k, func(group, i int, _ model.Param) error {
			r.weights.arrays[group][i].Free()
			r.weights.arrays[group][i] = nil
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// copies is the number of copies of the weights on all devices together.
func (l *learner) copies() int {
	if l.sharded {
		return 1
	}
	return len(l.replicas)
}

// unpark copies parked weights to the devices.
func (l *learner) unpark() error {
	if l.weights.parked == nil {
		return nil
	}
	return net.Each(l.copies(), func(k int) error {
		r, at := l.replicas[k], on(l.replicas[k].net.Dev)
		if l.sharded {
			at = l.home
		}
		return l.eachOwn(k, func(group, i int, p model.Param) (err error) {
			if r.weights.arrays[group][i] == nil {
				r.weights.arrays[group][i], err = device.Put(at(group, i), l.weights.parked[group][i], p.Dims...)
			}
			return err
		})
	})
}

// eachOwn visits the parameters whose arrays on a device belong to the learner.
func (l *learner) eachOwn(device int, visit func(group, i int, p model.Param) error) error {
	w := l.replicas[device].weights
	for gi, g := range w.groups {
		for i, p := range g.Params {
			if w.shares(gi, i) {
				continue
			}
			if err := visit(gi, i, p); err != nil {
				return fmt.Errorf("vlm: moving %s between host and device: %w", p.Parts[0].Name, err)
			}
		}
	}
	return nil
}

// parkedBytes is the size of parked weights. Their copies in host memory are part of the Go heap.
func (l *learner) parkedBytes() (sum int64) {
	if l == nil {
		return 0
	}
	for _, group := range l.weights.parked {
		for _, x := range group {
			sum += 4 * int64(len(x))
		}
	}
	return sum
}

// momentBytes is the planned size of the moments of trained weights of which the largest group
// has so many bytes: on an accelerator that has them during the update only, those of this
// group, otherwise all; moments in host memory that already exist are part of the Go heap.
func (l *learner) momentBytes(trained, largest int64) int64 {
	switch {
	case !l.offloadMoments:
		return 2 * trained
	case l.net.Dev.Accelerator() || l.adam != nil:
		return 2 * largest
	}
	return 2 * (trained + largest)
}
