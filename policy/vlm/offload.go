package vlm

import (
	"errors"
	"fmt"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/weights"
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
func (l *learner) offload(weights bool, homes func([]*model.Group) weights.Placement) error {
	l.offloadWeights, l.home = weights, homes(l.weights.Groups)
	return l.park()
}

// newMoments returns the moments of the learner's trained weights, in host memory or on the
// devices that own the weights.
func (l *learner) newMoments(from weights.Source) (*weights.Tensors, error) {
	groups := net.TrainedGroups(l.weights.Groups)
	if l.offloadMoments {
		return weights.NewHost(groups, from)
	}
	return weights.New(l.ofOwners(), groups, nil, from)
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
		l.weights.Parked = nil
	}
	return errors.Join(err, l.park())
}

// park moves the weights that belong to the learner to host memory, if that is where they
// are between calls.
func (l *learner) park() error {
	if !l.offloadWeights {
		return nil
	}
	if l.weights.Parked == nil {
		parked := make([][][]float32, len(l.weights.Groups))
		err := l.eachOwn(0, func(group, i int, p model.Param) (err error) {
			if parked[group] == nil {
				parked[group] = make([][]float32, len(l.weights.Groups[group].Params))
			}
			parked[group][i], err = l.weights.Read(group, i, make([]float32, p.Size()))
			return err
		})
		if err != nil {
			return err
		}
		l.weights.Parked = parked
	}
	for k := range l.copies() {
		r := l.replicas[k]
		err := l.eachOwn(k, func(group, i int, _ model.Param) error {
			r.weights.Arrays[group][i].Free()
			r.weights.Arrays[group][i] = nil
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
	if l.weights.Parked == nil {
		return nil
	}
	return net.Each(l.copies(), func(k int) error {
		r, at := l.replicas[k], weights.On(l.replicas[k].net.Dev)
		if l.sharded {
			at = l.home
		}
		return l.eachOwn(k, func(group, i int, p model.Param) (err error) {
			if r.weights.Arrays[group][i] == nil {
				r.weights.Arrays[group][i], err = device.Put(at(group, i), l.weights.Parked[group][i], p.Dims...)
			}
			return err
		})
	})
}

// eachOwn visits the parameters whose arrays on a device belong to the learner.
func (l *learner) eachOwn(device int, visit func(group, i int, p model.Param) error) error {
	w := l.replicas[device].weights
	for gi, g := range w.Groups {
		for i, p := range g.Params {
			if w.Shares(gi, i) {
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
	for _, group := range l.weights.Parked {
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
