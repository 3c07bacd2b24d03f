package learn

import (
	"slices"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/weights"
)

// With several devices each of them has all weights, and computes a part of a step's rows,
// of the rows to score and of the conversations. Moments and the sums of gradients are
// divided: each trained array has an owner, a device that sums its gradient and updates it.

// Replica is a copy of a learner's weights on one device.
type Replica struct {
	Net     *net.Net
	Weights *weights.Tensors
	Parts   *net.Parts
}

// ShareWeights makes all replicas use the learner's own tensors.
func (l *Learner) ShareWeights(devices []*device.Device) {
	l.Sharded, l.Replicas = true, nil
	for _, d := range devices {
		l.Replicas = append(l.Replicas, &Replica{Net: l.Net.On(d), Weights: l.Weights, Parts: l.Parts})
	}
}

// CopyTo returns a copy of the weights. It adds the arrays that it makes to copies, and
// shares those that are in it.
func (l *Learner) CopyTo(d *device.Device, copies map[*device.Array]*device.Array) (*Replica, error) {
	from := l.Replicas[0].Weights
	t := &weights.Tensors{Groups: from.Groups, Shared: make([][]bool, len(from.Groups))}
	r := &Replica{Net: l.Net.On(d), Weights: t}
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
	r.Parts = r.Net.PartsOf(t.Arrays)
	return r, nil
}

// spread copies the weights that want selects from the first device to the others.
func (l *Learner) spread(want func(model.Param) bool) error {
	if l.Sharded {
		return nil
	}
	return net.Each(len(l.Replicas), func(i int) error {
		if i == 0 {
			return nil
		}
		for gi, g := range l.Weights.Groups {
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
func (l *Learner) copyArray(group, i, from, to int) error {
	c, err := device.Copy(l.Replicas[from].Weights.Arrays[group][i], l.Replicas[to].Net.Dev)
	if err != nil {
		return err
	}
	l.Replicas[to].Weights.Put(group, i, c)
	return nil
}

// owners returns the owner of each trained array, by group and by index among the group's
// trained parameters.
func (l *Learner) owners() [][]int {
	return weights.ParamOwners(net.TrainedGroups(l.Weights.Groups), len(l.Replicas), weights.IsTrained)
}

// ofOwners places each trained array on its owner.
func (l *Learner) ofOwners() weights.Placement {
	owners := l.owners()
	return func(group, i int) *device.Device { return l.Replicas[owners[group][i]].Net.Dev }
}
