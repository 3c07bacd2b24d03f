package learn

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

// Offload moves the learner's weights to host memory, if they belong there between calls.
func (l *Learner) Offload(weights bool, homes func([]*model.Group) weights.Placement) error {
	l.offloadWeights, l.home = weights, homes(l.Weights.Groups)
	return l.MoveToHost()
}

// newMoments returns the moments of the learner's trained weights, in host memory or on the
// devices that own the weights.
func (l *Learner) newMoments(from weights.Source) (*weights.Tensors, error) {
	groups := net.TrainedGroups(l.Weights.Groups)
	if l.OffloadMoments {
		return weights.NewHost(groups, from)
	}
	return weights.New(l.ofOwners(), groups, nil, from)
}

// OnDevices calls f while the learner's weights are on the devices. changes says that f replaces
// them.
func (l *Learner) OnDevices(changes bool, f func() error) error {
	err := l.MoveToDevices()
	if err != nil {
		return errors.Join(err, l.MoveToHost())
	}
	err = f()
	if changes {
		l.Weights.OnHost = nil
	}
	return errors.Join(err, l.MoveToHost())
}

// MoveToHost moves the weights that belong to the learner to host memory, if that is where they
// are between calls.
func (l *Learner) MoveToHost() error {
	if !l.offloadWeights {
		return nil
	}
	if l.Weights.OnHost == nil {
		onHost := make([][][]float32, len(l.Weights.Groups))
		err := l.eachOwn(0, func(group, i int, p model.Param) (err error) {
			if onHost[group] == nil {
				onHost[group] = make([][]float32, len(l.Weights.Groups[group].Params))
			}
			onHost[group][i], err = l.Weights.Read(group, i, make([]float32, p.Size()))
			return err
		})
		if err != nil {
			return err
		}
		l.Weights.OnHost = onHost
	}
	for k := range l.copies() {
		r := l.Replicas[k]
		err := l.eachOwn(k, func(group, i int, _ model.Param) error {
			r.Weights.Arrays[group][i].Free()
			r.Weights.Arrays[group][i] = nil
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// copies is the number of copies of the weights on all devices together.
func (l *Learner) copies() int {
	if l.Sharded {
		return 1
	}
	return len(l.Replicas)
}

// MoveToDevices copies weights from host memory to the devices.
func (l *Learner) MoveToDevices() error {
	if l.Weights.OnHost == nil {
		return nil
	}
	return net.Each(l.copies(), func(k int) error {
		r, at := l.Replicas[k], weights.On(l.Replicas[k].Net.Dev)
		if l.Sharded {
			at = l.home
		}
		return l.eachOwn(k, func(group, i int, p model.Param) (err error) {
			if r.Weights.Arrays[group][i] == nil {
				r.Weights.Arrays[group][i], err = device.Put(at(group, i), l.Weights.OnHost[group][i], p.Dims...)
			}
			return err
		})
	})
}

// eachOwn visits the parameters whose arrays on a device belong to the learner, on the first device too: the zeros of
// a reference's adapters are not the learner's there, and stay on the devices.
func (l *Learner) eachOwn(device int, visit func(group, i int, p model.Param) error) error {
	w := l.Replicas[device].Weights
	for gi, g := range w.Groups {
		for i, p := range g.Params {
			if w.Shares(gi, i) || l.Weights.Shares(gi, i) {
				continue
			}
			if err := visit(gi, i, p); err != nil {
				return fmt.Errorf("vlm: moving %s between host and device: %w", p.Parts[0].Name, err)
			}
		}
	}
	return nil
}

// HostBytes is the size of the weights in host memory, which are part of the Go heap.
func (l *Learner) HostBytes() (sum int64) {
	if l == nil {
		return 0
	}
	for _, group := range l.Weights.OnHost {
		for _, x := range group {
			sum += 4 * int64(len(x))
		}
	}
	return sum
}

// MomentBytes is the planned size of the moments of trained weights of which the largest group
// has so many bytes: on an accelerator that has them during the update only, those of this
// group, otherwise all; moments in host memory that already exist are part of the Go heap.
func (l *Learner) MomentBytes(trained, largest int64) int64 {
	switch {
	case !l.OffloadMoments:
		return 2 * trained
	case l.Net.Dev.Accelerator() || l.Adam != nil:
		return 2 * largest
	}
	return 2 * (trained + largest)
}
