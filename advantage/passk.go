package advantage

import (
	"fmt"
	"math"
)

// PassK rewards the best row of a group alone, for what it adds to the best of
// k: the lead over the second best,
//
//	A = (s1 − s2) / (std + ε) for the best row, 0 for the others
//
// where s is the sum of all rewards of a row and std is that of its Group with
// n − 1. Of several best rows the first one is taken; its lead is 0 then. Every
// token under the mask gets the row's advantage, others 0; returns are the same
// numbers. No critic, no whitening.
//
// The mask is Loss, and Attention where no loss mask is in force. A batch
// without Group is an ErrNoGroup, a group of one an ErrGroupSize.
//
// See Tang et al., arXiv:2503.19595. Config name: grpo_passk.
type PassK struct {
	NoStd   bool    // leave out the division by std + ε
	Epsilon float64 // ε; 0 stands for DefaultEpsilon
}

// Estimate implements [Estimator].
func (k PassK) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "grpo_passk", k, runPassK[float32])
}

func runPassK[T number](pk PassK, c *call[T]) error {
	eps, err := epsilon(pk.Epsilon)
	if err != nil {
		return err
	}
	g, scores, err := c.scoredGroups()
	if err != nil {
		return err
	}
	for row, k := range g.of {
		if g.size[k] < 2 {
			return fmt.Errorf("group: row %d is alone in group %d: %w (2 or more)", row, c.group[row], ErrGroupSize)
		}
	}
	best, second := g.leaders(scores)
	clear(scores)
	for k, row := range best {
		lead := second[k]
		if !pk.NoStd {
			lead /= math.Sqrt(g.m2[k]/float64(g.size[k]-1)) + eps
		}
		scores[row] = lead
	}
	c.mask = c.lossMask()
	return c.share(scores)
}

// leaders returns the best item of each group and its lead over the second.
func (g *groups) leaders(scores []float64) (best []int, lead []float64) {
	g.best, g.lead = resize(g.best, g.count()), resize(g.lead, g.count())
	for k := range g.best {
		g.best[k], g.lead[k] = -1, math.Inf(1)
	}
	for i, s := range scores {
		k := g.of[i]
		switch b := g.best[k]; {
		case b < 0:
			g.best[k] = i
		case s > scores[b]:
			g.best[k], g.lead[k] = i, s-scores[b]
		default:
			g.lead[k] = min(g.lead[k], scores[b]-s)
		}
	}
	return g.best, g.lead
}
