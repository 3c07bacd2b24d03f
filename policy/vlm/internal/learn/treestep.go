package learn

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gomlx/compute/support/xslices"

	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/tree"
)

// gradientSum are gradients by group and by index among the group's trained parameters; nil where there is none.
type gradientSum [][]*device.Array

// Accumulate adds the gradients of a task to those of the next optimiser step. Without tokens there are none. If it
// fails, the gradients of earlier tasks stay, unless the device fails while the two are added.
func (l *Learner) Accumulate(ctx context.Context, k *task, leaves [][]*net.Pack) (err error) {
	if leaves == nil {
		return nil
	}
	t := &TreeStep{Learner: l, owners: l.owners()}
	defer func() {
		if err != nil {
			t.free()
		}
	}()
	if err := t.learn(ctx, leaves, k); err != nil {
		return err
	}
	if err := t.exchange(); err != nil {
		return fmt.Errorf("vlm: summing gradients over devices: %w", err)
	}
	if err := t.exchangeNodes(ctx); err != nil {
		return fmt.Errorf("vlm: summing gradients over nodes: %w", err)
	}
	if l.Open != nil {
		before := l.Open
		l.Open = nil
		t.merge(before)
		if err := net.Each(len(t.Replicas), func(d int) error { return t.addOwned(d, before) }); err != nil {
			return fmt.Errorf("vlm: summing gradients: %w", err)
		}
	}
	l.Open = t
	return nil
}

// merge takes over the arrays of an earlier task.
func (t *TreeStep) merge(before *TreeStep) {
	t.Exchanging += before.Exchanging
	for d := range t.made {
		t.made[d] = append(t.made[d], before.made[d]...)
	}
}

// addOwned adds the sums that a device owns to those of an earlier task.
func (t *TreeStep) addOwned(d int, before *TreeStep) error {
	for group, owners := range t.owners {
		for i, owner := range owners {
			if owner != d {
				continue
			}
			sum := before.Sums[d][group][i : i+1]
			if err := t.addGroup(d, sum, t.Sums[d][group][i:i+1]); err != nil {
				return err
			}
			t.Sums[d][group][i] = sum[0]
		}
	}
	return nil
}

// Step takes the optimiser step with the gradients so far.
func (l *Learner) Step(
	ctx context.Context, opt policy.Optimizer, rate float64,
) (norm float64, skipped bool, err error) {
	if l.Open == nil {
		return 0, true, nil
	}
	t := l.Open
	defer l.DropGradients()
	if norm, skipped, err = t.apply(opt, rate); err == nil {
		err = t.agree(ctx, norm, skipped)
	}
	return norm, skipped, err
}

// DropGradients frees the gradients so far.
func (l *Learner) DropGradients() {
	if l != nil && l.Open != nil {
		l.Open.free()
		l.Open = nil
	}
}

// ScoreLeaves scores packs, each leaf on its device of its node.
func (l *Learner) ScoreLeaves(
	ctx context.Context, leaves [][]*net.Pack, h *model.Head, out *net.Scored, chunk int, temperature float64,
) error {
	err := net.Each(len(l.Replicas), func(i int) error {
		from, to := l.span(i, len(leaves))
		return l.Replicas[i].score(ctx, net.Flat(leaves[from:to]), h, out, chunk, temperature)
	})
	if err != nil {
		return err
	}
	return l.gatherScores(ctx, leaves, h, out)
}

// TreeStep are the gradients of an optimiser step of a learner.
type TreeStep struct {
	*Learner
	owners     [][]int
	Sums       []gradientSum     // by device
	made       [][]*device.Array // by device: arrays to free at the end, some of which are free already
	Exchanging time.Duration
}

func (t *TreeStep) free() {
	for _, arrays := range t.made {
		device.FreeAll(arrays...)
	}
}

// own keeps a device's arrays until the end of the step at most.
func (t *TreeStep) own(device int, arrays []*device.Array) []*device.Array {
	t.made[device] = append(t.made[device], arrays...)
	return arrays
}

// learn computes each device's sum of gradients, and evaluates the objective for all tokens.
func (t *TreeStep) learn(ctx context.Context, leaves [][]*net.Pack, k *task) error {
	if err := t.Prepare(net.Flat(leaves)[0], k.head, k.chunk); err != nil {
		return err
	}
	n := len(t.Replicas)
	t.Sums, t.made = make([]gradientSum, n), make([][]*device.Array, n)
	first := make([]*net.Trace, n) // of each device's first pack
	defer func() {
		for _, f := range first {
			f.Drop()
		}
	}()
	if !k.local {
		err := net.Each(n, func(i int) (err error) {
			from, to := t.span(i, len(leaves))
			first[i], err = t.Replicas[i].scoreFirst(ctx, k, net.Flat(leaves[from:to]))
			return err
		})
		if err == nil {
			err = t.finishScores(ctx, leaves, k)
		}
		if err != nil {
			return err
		}
	}
	err := net.Each(n, func(i int) (err error) {
		from, to := t.span(i, len(leaves))
		t.Sums[i], err = tree.Sum(from, to, func(leaf int) (gradientSum, error) { return t.learnLeaf(ctx, i, k, &first[i], leaves[leaf]) },
			func(a, b gradientSum) (gradientSum, error) { return a, t.add(i, a, b) })
		return err
	})
	if err == nil && k.local {
		err = t.finishScores(ctx, leaves, k)
	}
	return err
}

// finishScores evaluates the objective with the scores of all nodes.
func (t *TreeStep) finishScores(ctx context.Context, leaves [][]*net.Pack, k *task) error {
	if err := t.gatherScores(ctx, leaves, k.head, k.scores); err != nil {
		return err
	}
	return t.evaluate(ctx, k)
}

// learnLeaf computes the gradients of a leaf on a device. first is the forward pass of the device's first pack.
func (t *TreeStep) learnLeaf(ctx context.Context, on int, k *task, first **net.Trace, packs []*net.Pack) (gradientSum, error) {
	sum := t.noGradients()
	if len(packs) == 0 {
		return sum, nil
	}
	computed := *first
	*first = nil
	r := t.Replicas[on]
	g, err := r.learn(ctx, k, computed, packs)
	if err != nil {
		return nil, err
	}
	for group, arrays := range r.Net.List(g) {
		copy(sum[group], t.own(on, arrays))
	}
	return sum, nil
}

// noGradients returns an empty sum.
func (t *TreeStep) noGradients() gradientSum {
	out := make(gradientSum, len(t.owners))
	for group, owners := range t.owners {
		out[group] = make([]*device.Array, len(owners))
	}
	return out
}

// add adds b, which it consumes, to a.
func (t *TreeStep) add(device int, a, b gradientSum) error {
	for group := range a {
		if err := t.addGroup(device, a[group], b[group]); err != nil {
			return err
		}
	}
	return nil
}

func (t *TreeStep) addGroup(on int, a, b []*device.Array) error {
	var both []int
	var x, y []*device.Array
	for i := range a {
		switch {
		case b[i] == nil:
		case a[i] == nil:
			a[i] = b[i]
		default:
			both, x, y = append(both, i), append(x, a[i]), append(y, b[i])
		}
	}
	if len(both) == 0 {
		return nil
	}
	out, err := t.Replicas[on].Net.AddLists().Run(append(x, y...), xslices.Iota(0, len(x))...)
	if err != nil {
		return err
	}
	device.FreeAll(y...)
	t.own(on, out)
	for k, i := range both {
		a[i] = out[k]
	}
	return nil
}

// exchange sums the devices' sums by recursive halving: afterwards the owner of each array
// has its gradient.
func (t *TreeStep) exchange() error {
	defer t.timed(time.Now())
	n := len(t.Replicas)
	for _, distance := range tree.Rounds(n) {
		err := net.Each(n, func(i int) error {
			theirs := t.Sums[i^distance]
			for group, owners := range t.owners {
				for k, owner := range owners {
					if !tree.Receives(i, owner, distance) || theirs[group][k] == nil {
						continue
					}
					c, err := device.Copy(theirs[group][k], t.Replicas[i].Net.Dev)
					if err != nil {
						return err
					}
					t.own(i, []*device.Array{c})
					theirs[group][k].Free()
					theirs[group][k] = nil
					// One array at a time: lists would differ from device to device, and each
					// would be compiled.
					if err := t.addGroup(i, t.Sums[i][group][k:k+1], []*device.Array{c}); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *TreeStep) timed(since time.Time) { t.Exchanging += time.Since(since) }

// owned calls f for the gradients that a device owns, at the indices at of a group. A group on one device is one
// list. With parts on several, lists would differ from device to device, and each would be compiled and could
// have other bytes, so each array is a list of its own.
func (t *TreeStep) owned(d int, f func(group int, at []int, gradients []*device.Array) error) error {
	for group, owners := range t.owners {
		var at []int
		for i, owner := range owners {
			if owner == d && t.Sums[owner][group][i] != nil {
				at = append(at, i)
			}
		}
		size := 1
		if !t.Tree && len(at) == len(owners) {
			size = max(1, len(at))
		}
		for list := range slices.Chunk(at, size) {
			if err := f(group, list, t.Sums[d][group][list[0]:list[0]+len(list)]); err != nil {
				return fmt.Errorf("vlm: optimiser step of %s: %w", t.Weights.Groups[group].Name, err)
			}
		}
	}
	return nil
}

// norm is the global norm of the gradients, summed array by array in float64.
func (t *TreeStep) norm() (float64, error) {
	squares := make([][]float64, len(t.owners))
	for group, owners := range t.owners {
		squares[group] = make([]float64, len(owners))
	}
	err := net.Each(len(t.Replicas), func(d int) error {
		return t.owned(d, func(group int, at []int, g []*device.Array) error {
			out, err := t.Replicas[d].Net.Squares().Run(g)
			if err != nil {
				return err
			}
			defer device.FreeAll(out...)
			x, err := device.ReadNew[float32](out[0])
			if err != nil {
				return err
			}
			for k, i := range at {
				squares[group][i] = float64(x[k])
			}
			return nil
		})
	})
	var sum float64
	for _, group := range squares {
		for _, x := range group {
			sum += x
		}
	}
	return math.Sqrt(sum), err
}

// apply takes the optimiser step: owners update their arrays, and the other devices copy them. The step is skipped
// if the norm of the gradients before clipping is not finite or reaches the limit. Parameters without
// gradients are not changed.
func (t *TreeStep) apply(opt policy.Optimizer, rate float64) (norm float64, skipped bool, err error) {
	if t.Adam == nil {
		if t.Adam, err = t.newAdam(0, zeros, zeros); err != nil {
			return 0, false, err
		}
	}
	if norm, err = t.norm(); err != nil {
		return 0, false, err
	}
	if skips(norm, opt) {
		return norm, true, nil
	}
	a := t.Adam
	a.Steps++
	numbers := a.numbers(opt, rate, norm)
	err = net.Each(len(t.Replicas), func(d int) error {
		r := t.Replicas[d]
		s := net.Scope{Dev: r.Net.Dev}
		defer s.Free()
		hyper := net.Upload(&s, numbers)
		if s.Err != nil {
			return s.Err
		}
		return t.owned(d, func(group int, at []int, g []*device.Array) error {
			trained := t.Weights.Groups[group].Trained()[at[0]:][:len(at)]
			return a.stepGroup(r.Weights.Arrays[group], trained, group, at[0], g, hyper)
		})
	})
	if err != nil {
		return norm, false, err
	}
	return norm, false, t.gather()
}

// gather copies the updated weights from their owners to the other devices.
func (t *TreeStep) gather() error {
	if t.Sharded {
		return nil
	}
	defer t.timed(time.Now())
	return net.Each(len(t.Replicas), func(to int) error {
		for group, owners := range t.owners {
			trained := t.Weights.Groups[group].Trained()
			for i, owner := range owners {
				if owner == to || t.Sums[owner][group][i] == nil {
					continue
				}
				if err := t.copyArray(group, trained[i], owner, to); err != nil {
					return fmt.Errorf("vlm: copying weights to device %d: %w", to, err)
				}
			}
		}
		return nil
	})
}
