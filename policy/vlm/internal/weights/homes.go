package weights

import (
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/tree"
)

// With ShardWeights every weight is on one device only, its home, and all replicas of a learner
// share the same tensors. A trained weight's home is its owner, so that the optimiser needs no
// copies. Before a program runs, weights from other devices are copied to the device that runs
// it, and freed afterwards: those of a layer in training and scoring, all of the decoder's while
// conversations are open.

// ParamOwners returns the owner of each of the groups' parameters that want selects, by group and by
// index among the selected ones: a device that owns about as much as every other.
func ParamOwners(groups []*model.Group, devices int, want func(model.Param) bool) [][]int {
	var sizes []int
	for _, g := range groups {
		for _, p := range g.Params {
			if want(p) {
				sizes = append(sizes, p.Size())
			}
		}
	}
	all := tree.Owners(sizes, devices)
	out := make([][]int, len(groups))
	for i, g := range groups {
		for _, p := range g.Params {
			if want(p) {
				out[i], all = append(out[i], all[0]), all[1:]
			}
		}
	}
	return out
}

func IsTrained(p model.Param) bool { return !p.Frozen }
func isFrozen(p model.Param) bool  { return p.Frozen }

// Divided places weights that are divided over devices at their homes.
func Divided(on []*device.Device, groups []*model.Group) Placement {
	trained, frozen := ParamOwners(groups, len(on), IsTrained), ParamOwners(groups, len(on), isFrozen)
	devices := make([][]*device.Device, len(groups))
	for gi, g := range groups {
		for _, p := range g.Params {
			of := &trained[gi]
			if p.Frozen {
				of = &frozen[gi]
			}
			devices[gi] = append(devices[gi], on[(*of)[0]])
			*of = (*of)[1:]
		}
	}
	return func(group, i int) *device.Device { return devices[group][i] }
}
