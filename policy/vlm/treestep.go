package vlm

import (
	"context"
	"fmt"
	"math"
	"time"

	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/tree"
)

// gradientSum are gradients by group and by index among the group's trained parameters; nil
// where there is none.
type gradientSum [][]*device.Array

// runTreeStep is runStep where a step is divided into leaves.
func (m *Model) runTreeStep(ctx context.Context, s *step, want []bool, opt policy.Optimizer, rate float64) error {
	s.sums = make([]float64, model.Stats)
	leaves, err := m.packer(s.learner.net).leaves(&s.batch.Rows, want)
	if err != nil {
		return err
	}
	if leaves == nil {
		s.skipped = true
		return nil
	}
	start, fetched, waited := time.Now(), s.learner.net.fetching.Load(), s.learner.group.waited()
	numbers, loss, before := numbersOf(s.batch), s.loss, s.sums
	if loss.Policy && loss.Kind.Joint() {
		out := newScored(s.head, len(s.batch.Tokens))
		if err := s.learner.scoreLeaves(ctx, leaves, s.head, out, m.opts.HeadTokens, s.objective.Temperature); err != nil {
			return err
		}
		joint, err := m.evalJointAt(s, flat(leaves), out.logProb)
		if err != nil {
			return err
		}
		numbers[model.Slope], before, s.metrics = joint.slopes, joint.sums, joint.metrics
		loss = loss.AfterJoint()
	}
	t := &treeStep{learner: s.learner, owners: s.learner.owners()}
	defer t.free()
	if s.sums, err = t.learn(ctx, leaves, s.head, loss, numbers.columns, hyperParams(s.objective), m.opts.HeadTokens); err != nil {
		return err
	}
	addSums(s.sums, before)
	sent := t.group.sent()
	if err := t.exchange(); err != nil {
		return fmt.Errorf("vlm: summing gradients over devices: %w", err)
	}
	if err := t.exchangeNodes(ctx); err != nil {
		return fmt.Errorf("vlm: summing gradients over nodes: %w", err)
	}
	if s.norm, s.skipped, err = t.apply(opt, rate); err == nil {
		err = t.agree(ctx, s.norm, s.skipped)
	}
	m.exchangeSent.Store(t.group.sent() - sent)
	fetching := time.Duration(s.learner.net.fetching.Load()-fetched) / time.Duration(len(m.devices))
	all := time.Since(start).Seconds()
	m.exchangeShare.Store(math.Float64bits(share((t.exchanging + fetching).Seconds(), all)))
	m.waitShare.Store(math.Float64bits(share((t.group.waited() - waited).Seconds(), all)))
	return err
}

// scoreLeaves scores packs, each leaf on its device of its node.
func (l *learner) scoreLeaves(ctx context.Context, leaves [][]*pack, h *model.Head, out *scored, chunk int, temperature float64) error {
	err := each(len(l.replicas), func(i int) error {
		from, to := l.span(i, len(leaves))
		return l.replicas[i].score(ctx, flat(leaves[from:to]), h, out, chunk, temperature)
	})
	if err != nil {
		return err
	}
	return l.group.gatherScores(ctx, leaves, h, out)
}

// treeStep is an optimiser step of a learner.
type treeStep struct {
	*learner
	owners     [][]int
	sums       []gradientSum     // by device
	made       [][]*device.Array // by device: arrays to free at the end, some of which are free already
	exchanging time.Duration
}

func (t *treeStep) free() {
	for _, arrays := range t.made {
		device.FreeAll(arrays...)
	}
}

// own keeps a device's arrays until the end of the step at most.
func (t *treeStep) own(device int, arrays []*device.Array) []*device.Array {
	t.made[device] = append(t.made[device], arrays...)
	return arrays
}

// learn computes each device's sum of gradients, and returns the statistics of all rows.
func (t *treeStep) learn(ctx context.Context, leaves [][]*pack, h *model.Head, loss *model.Loss, cols func(*pack) columns, hyper []float32, chunk int) ([]float64, error) {
	if err := t.prepare(flat(leaves)[0], h, loss, chunk); err != nil {
		return nil, err
	}
	n := len(t.replicas)
	t.sums, t.made = make([]gradientSum, n), make([][]*device.Array, n)
	stats := make([][]float64, len(leaves))
	err := each(n, func(i int) (err error) {
		r := t.replicas[i]
		from, to := t.span(i, len(leaves))
		t.sums[i], err = tree.Sum(from, to, func(leaf int) (gradientSum, error) {
			sum := t.noGradients()
			if stats[leaf] = make([]float64, model.Stats); len(leaves[leaf]) == 0 {
				return sum, nil
			}
			g, s, err := r.learn(ctx, nil, leaves[leaf], h, loss, cols, hyper, chunk)
			if err != nil {
				return nil, err
			}
			stats[leaf] = s
			for group, arrays := range r.net.list(g.parts) {
				copy(sum[group], t.own(i, arrays))
			}
			return sum, nil
		}, func(a, b gradientSum) (gradientSum, error) { return a, t.add(i, a, b) })
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := t.group.gatherStats(ctx, stats); err != nil {
		return nil, err
	}
	return tree.Sum(0, len(leaves), func(leaf int) ([]float64, error) { return stats[leaf], nil },
		func(a, b []float64) ([]float64, error) { addSums(a, b); return a, nil })
}

// noGradients returns an empty sum.
func (t *treeStep) noGradients() gradientSum {
	out := make(gradientSum, len(t.owners))
	for group, owners := range t.owners {
		out[group] = make([]*device.Array, len(owners))
	}
	return out
}

// add adds b, which it consumes, to a.
func (t *treeStep) add(device int, a, b gradientSum) error {
	for group := range a {
		if err := t.addGroup(device, a[group], b[group]); err != nil {
			return err
		}
	}
	return nil
}

func (t *treeStep) addGroup(on int, a, b []*device.Array) error {
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
	out, err := t.replicas[on].net.addLists().Run(append(x, y...), from(0, len(x))...)
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
func (t *treeStep) exchange() error {
	defer t.timed(time.Now())
	n := len(t.replicas)
	for _, distance := range tree.Rounds(n) {
		err := each(n, func(i int) error {
			theirs := t.sums[i^distance]
			for group, owners := range t.owners {
				for k, owner := range owners {
					if !tree.Receives(i, owner, distance) || theirs[group][k] == nil {
						continue
					}
					c, err := device.Copy(theirs[group][k], t.replicas[i].net.dev)
					if err != nil {
						return err
					}
					t.own(i, []*device.Array{c})
					theirs[group][k].Free()
					theirs[group][k] = nil
					// One array at a time: lists would differ from device to device, and each
					// would be compiled.
					if err := t.addGroup(i, t.sums[i][group][k:k+1], []*device.Array{c}); err != nil {
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

func (t *treeStep) timed(since time.Time) { t.exchanging += time.Since(since) }

// owned calls f for the arrays with a gradient that a device owns.
func (t *treeStep) owned(device int, f func(group, i int, gradient *device.Array) error) error {
	for group, owners := range t.owners {
		for i, owner := range owners {
			if g := t.sums[owner][group][i]; owner == device && g != nil {
				if err := f(group, i, g); err != nil {
					return fmt.Errorf("vlm: optimiser step of %s: %w", t.weights.groups[group].Name, err)
				}
			}
		}
	}
	return nil
}

// norm is the global norm of the gradients, summed array by array in float64.
func (t *treeStep) norm() (float64, error) {
	squares := make([][]float64, len(t.owners))
	for group, owners := range t.owners {
		squares[group] = make([]float64, len(owners))
	}
	err := each(len(t.replicas), func(d int) error {
		return t.owned(d, func(group, i int, g *device.Array) error {
			out, err := t.replicas[d].net.squares().Run([]*device.Array{g})
			if err != nil {
				return err
			}
			defer device.FreeAll(out...)
			x, err := device.ReadNew[float32](out[0])
			if err != nil {
				return err
			}
			squares[group][i] = float64(x[0])
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

// apply takes the optimiser step: owners update their arrays, and the other devices copy them.
func (t *treeStep) apply(opt policy.Optimizer, rate float64) (norm float64, skipped bool, err error) {
	if t.adam == nil {
		if t.adam, err = t.newAdam(); err != nil {
			return 0, false, err
		}
	}
	if norm, err = t.norm(); err != nil {
		return 0, false, err
	}
	if skips(norm, opt) {
		return norm, true, nil
	}
	a := t.adam
	a.steps++
	numbers := a.numbers(opt, rate, norm)
	err = each(len(t.replicas), func(d int) error {
		r := t.replicas[d]
		s := scope{dev: r.net.dev}
		defer s.free()
		hyper := upload(&s, numbers)
		if s.err != nil {
			return s.err
		}
		return t.owned(d, func(group, i int, g *device.Array) error {
			w := t.weights.groups[group].Trained()[i]
			return a.stepGroup(r.weights.arrays[group], []int{w}, group, i, []*device.Array{g}, hyper)
		})
	})
	if err != nil {
		return norm, false, err
	}
	return norm, false, t.gather()
}

// gather copies the updated weights from their owners to the other devices.
func (t *treeStep) gather() error {
	if t.sharded {
		return nil
	}
	defer t.timed(time.Now())
	return each(len(t.replicas), func(to int) error {
		for group, owners := range t.owners {
			trained := t.weights.groups[group].Trained()
			for i, owner := range owners {
				if owner == to || t.sums[owner][group][i] == nil {
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
