package advantage

import (
	"fmt"
	"math"

	"vagen/internal/floats"
)

// GDPO normalises each component of the reward in its group before it adds them, so that the
// spread of one does not hide the others:
//
//	S = Σ wk·(rk − meank) / (stdk + ε),   stdk² = Σ (rk − meank)² / (n − 1)
//
// where rk is component k of a row, wk its weight, and mean and std are taken over the rows of
// the Group; for a group of one, mean is 0 and std is 1. S is given to all tokens under the mask
// and whitened over them across the batch. Returns are the same numbers; both are 0 off the mask.
// No critic. Without Components the only component is the sum of all rewards of a row. Fewer
// than two tokens under the mask are an ErrEmptyMask.
//
// With OverRows ε is 1e-4, groups of one have S = 0, and S is not whitened over tokens but
// shifted by its mean and divided by its std + 1e-4 over the rows of the batch. A component that
// is NaN is missing: it is left out and adds 0, as does one that only one row of a group has; a
// row without any component has advantage 0.
//
// The mask is Loss, or Attention without a loss mask. A batch without Group is an ErrNoGroup.
//
// See arXiv:2601.05242, as in verl (config name gdpo) and, over rows, in TRL (gdpo_trl).
type GDPO struct {
	NormByStd bool    // divide by stdk + ε; always with OverRows
	Epsilon   float64 `needs:"NormByStd"`
	Whiten    bool    // not read with OverRows
	OverRows  bool
}

// rowsEpsilon is added to standard deviations of GDPO over rows.
const rowsEpsilon = 1e-4

// Estimate implements [Estimator].
func (g GDPO) Estimate(dst *Result, b *Batch) error {
	name := "gdpo"
	if g.OverRows {
		name = "gdpo_trl"
	}
	return estimate(dst, b, name, g.run)
}

func (g GDPO) run(c *call) error {
	eps, err := epsilon(g.Epsilon)
	if err != nil {
		return err
	}
	all, scores, err := c.scoredGroups()
	if err != nil {
		return err
	}
	if err := c.checkComponents(g.OverRows); err != nil {
		return err
	}
	if g.OverRows {
		eps, g.NormByStd = rowsEpsilon, true
	}
	n, groups := c.Rows(), &c.memory.steps.groups
	c.perRow, c.ids, c.counted = zeroed(c.perRow, n), resize(c.ids, n), zeroed(c.counted, n)
	for k := range max(1, len(c.Components)) {
		weight := c.component(k, scores)
		copy(c.ids, all.of)
		for row, s := range scores {
			if math.IsNaN(s) { // alone in a group of its own, which no other row can have
				scores[row], c.ids[row] = 0, -1-row
			} else {
				c.counted[row] = true
			}
		}
		groups.assign(c.ids)
		groups.score(scores)
		for row, s := range scores {
			alone := s
			if g.OverRows {
				alone = 0
			}
			c.perRow[row] += float64(weight * groups.compare(row, s, g.NormByStd, eps, alone))
		}
	}
	if g.OverRows {
		c.normalizeRows()
		return c.finishBroadcast(c.perRow)
	}
	c.broadcast(c.perRow)
	err = c.whiten(g.Whiten, GuardedWhitening(), c.mask, true)
	copy(c.ret, c.adv)
	return err
}

// normalizeRows shifts and scales the numbers of the counted rows; all others have 0.
func (c *call) normalizeRows() {
	var all floats.Sums
	for row, s := range c.perRow {
		if c.counted[row] {
			all.Add(s)
		}
	}
	m := all.Moments()
	for row, s := range c.perRow {
		if c.counted[row] && m.N > 1 {
			c.perRow[row] = (s - m.Mean) / (math.Sqrt(m.Variance()) + rowsEpsilon)
		}
	}
}

// component sets the scores to a component, if the batch has any, and returns its weight.
func (c *call) component(k int, scores []float64) float64 {
	if len(c.Components) == 0 {
		return 1
	}
	for row, r := range c.Components[k] {
		scores[row] = float64(r)
	}
	if len(c.ComponentWeights) == 0 {
		return 1
	}
	return c.ComponentWeights[k]
}

// checkComponents returns an error for components or weights of the wrong number, and for
// numbers that are not finite; NaN may be allowed.
func (c *call) checkComponents(missing bool) error {
	if n := len(c.ComponentWeights); n != 0 && n != len(c.Components) {
		return fmt.Errorf("component_weights: %d for %d components: %w", n, len(c.Components), ErrLength)
	}
	for k, w := range c.ComponentWeights {
		if w-w != 0 {
			return fmt.Errorf("component_weights[%d]: %v: %w", k, w, ErrNotFinite)
		}
	}
	for k, of := range c.Components {
		if len(of) != c.Rows() {
			return fmt.Errorf("components[%d]: length %d: %w (must be %d, the number of rows)", k, len(of), ErrLength, c.Rows())
		}
		for row, r := range of {
			if r-r != 0 && !(missing && r != r) {
				return fmt.Errorf("components[%d]: row %d: %v: %w", k, row, r, ErrNotFinite)
			}
		}
	}
	return nil
}
