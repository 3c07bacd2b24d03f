package vlm

import (
	"fmt"
	"slices"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/weights"
)

// With several devices each of them has all weights, and computes a part of a step's rows,
// of the rows to score and of the conversations. Moments and the sums of gradients are
// divided: each trained array has an owner, a device that sums its gradient and updates it.

// replica is a copy of a learner's weights on one device.
type replica struct {
	net     *net.Net
	weights *weights.Tensors
	parts   *net.Parts
}

// replicate copies the weights of all learners to the other devices.
func (m *Model) replicate() error {
	learners := []*learner{m.actor, m.ref, m.critic}
	for _, l := range learners {
		if l != nil {
			l.tree = m.tree
			l.replicas = append(l.replicas, make([]*replica, len(m.devices)-1)...)
		}
	}
	if m.sharded() {
		for _, l := range learners {
			if l != nil {
				l.shareWeights(m.devices)
			}
		}
		return nil
	}
	return net.Each(len(m.devices), func(i int) error {
		if i == 0 {
			return nil
		}
		copies := map[*device.Array]*device.Array{} // by array on the first device
		for _, l := range learners {
			if l == nil {
				continue
			}
			var err error
			if l.replicas[i], err = l.copyTo(m.devices[i], copies); err != nil {
				return fmt.Errorf("vlm: copying the weights to device %d: %w", i, err)
			}
		}
		return nil
	})
}

// shareWeights makes all replicas use the learner's own tensors.
func (l *learner) shareWeights(devices []*device.Device) {
	l.sharded, l.replicas = true, nil
	for _, d := range devices {
		l.replicas = append(l.replicas, &replica{net: l.net.On(d), weights: l.weights, parts: l.parts})
	}
}

// copyTo returns a copy of the weights. It adds the arrays that it makes to copies, and
// shares those that are in it.
func (l *learner) copyTo(d *device.Device, copies map[*device.Array]*device.Array) (*replica, error) {
	from := l.replicas[0].weights
	t := &weights.Tensors{Groups: from.Groups, Shared: make([][]bool, len(from.Groups))}
	r := &replica{net: l.net.On(d), weights: t}
	for gi, arrays := range from.Arrays {
		t.Arrays = append(t.Arrays, nil)
		for _, a := range arrays {
			c, shared := copies[a]
			if !shared {
				var err error
				if c, err = device.Copy(a, d); err != nil {
					return r, err
				}
				copies[a] = c
			}
			t.Arrays[gi], t.Shared[gi] = append(t.Arrays[gi], c), append(t.Shared[gi], shared)
		}
	}
	device.HugePages(slices.Concat(t.Arrays...))
	r.parts = r.net.PartsOf(t.Arrays)
	return r, nil
}

// spread copies the weights that want selects from the first device to the others.
func (l *learner) spread(want func(model.Param) bool) error {
	if l.sharded {
		return nil
	}
	return net.Each(len(l.replicas), func(i int) error {
		if i == 0 {
			return nil
		}
		for gi, g := range l.weights.Groups {
			for pi, p := range g.Params {
				if want(p) {
					if err := l.copyArray(gi, pi, 0, i); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// copyArray copies a parameter from one device to another.
func (l *learner) copyArray(group, i, from, to int) error {
	c, err := device.Copy(l.replicas[from].weights.Arrays[group][i], l.replicas[to].net.Dev)
	if err != nil {
		return err
	}
	l.replicas[to].weights.Put(group, i, c)
	return nil
}

// owners returns the owner of each trained array, by group and by index among the group's
// trained parameters.
func (l *learner) owners() [][]int {
	return weights.Owners(net.TrainedGroups(l.weights.Groups), len(l.replicas), weights.IsTrained)
}

// ofOwners places each trained array on its owner.
func (l *learner) ofOwners() weights.Placement {
	owners := l.owners()
	return func(group, i int) *device.Device { return l.replicas[owners[group][i]].net.Dev }
}
