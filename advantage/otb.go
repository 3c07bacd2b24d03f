package advantage

import (
	"fmt"
	"math"
	"slices"
)

// OptimalBaseline subtracts at each position the baseline that makes the variance of the gradient smallest there, if a
// token's gradient has the squared norm 1 − 2π + Σπ²:
//
//	A = G − B,   B(t) = Σ Gi·Wi / (Σ Wi + 1e-8),   W(t) = Σ (1 − 2π + Σπ²)·w² over the tokens up to t
//
// where G is the sum of the rewards under the mask from t on, π the token's probability and Σπ² the sum of the
// squares of all tokens' probabilities before the update, w the rollout weight, and the sums run over the rows of
// the Group that have a token under the mask at t. Without Packed t is the position in the row, so that prompts
// need one length; with Packed it counts tokens under the mask, and rows without any leave their group. B is 0 in a
// group of one and, with ZeroTail, for the tokens by which one row is longer than all others of its group. Returns
// are G, advantages 0 off the mask. No critic, no whitening.
//
// The mask is Loss, or Attention without a loss mask. A batch without Group, LogProbs or SumPiSquared is an ErrNoGroup.
//
// As in verl. Config names: optimal_token_baseline; with Packed, tir_optimal_token_baseline.
type OptimalBaseline struct {
	Packed, ZeroTail bool
}

// Estimate implements [Estimator].
func (o OptimalBaseline) Estimate(dst *Result, b *Batch) error {
	name := "optimal_token_baseline"
	if o.Packed {
		name = "tir_optimal_token_baseline"
	}
	return estimate(dst, b, name, o.run)
}

// column is a group's place among the sums of all groups.
type column struct {
	start, width    int // first position and their number
	rows            int
	longest, second int // tokens under the mask of the two longest rows
	first           int // the earliest position under the mask: what is before it is the prompt
}

// sums are those of one position of a group.
type sums struct{ returns, weights float64 }

func (o OptimalBaseline) run(c *call) error {
	g, _, err := c.scoredGroups()
	if err != nil {
		return err
	}
	for i, x := range [...][]float32{c.LogProbs, c.SumPiSquared} {
		if len(x) == 0 && c.Tokens() > 0 {
			return fmt.Errorf("%s: %w", [...]string{"log_probs", "sum_pi_squared"}[i], ErrNoGroup)
		}
	}
	o.layOut(c, g)
	for row, k := range g.of {
		lo, hi := c.Row(row)
		after, total := 0.0, 0.0
		for t := hi - 1; t >= lo; t-- {
			if c.mask[t] {
				after += float64(c.Rewards[t])
			}
			c.toCome[t], c.ret[t] = after, float32(after)
		}
		for t, at := lo, c.columns[k].start; t < hi; t++ {
			if c.mask[t] {
				total += c.squaredNorm(t)
				c.sums[at].returns += float64(c.toCome[t] * total)
				c.sums[at].weights += total
			}
			if c.mask[t] || !o.Packed {
				at++
			}
		}
	}
	for row, k := range g.of {
		lo, hi := c.Row(row)
		of := &c.columns[k]
		end := of.start + of.width // where the baseline becomes 0
		if of.rows == 1 {
			end = of.start
		} else if o.ZeroTail && of.longest > of.second && count(c.mask[lo:hi]) == of.longest {
			end = of.start + of.first + of.second
		}
		for t, at := lo, of.start; t < hi; t++ {
			if c.mask[t] {
				a := c.toCome[t]
				if at < end {
					a -= c.sums[at].returns / (c.sums[at].weights + 1e-8)
				}
				c.adv[t] = float32(a)
			}
			if c.mask[t] || !o.Packed {
				at++
			}
		}
	}
	_, err = c.check(nil)
	return err
}

// squaredNorm is the weight of a token.
func (c *call) squaredNorm(t int) float64 {
	x := 1 - 2*math.Exp(float64(c.LogProbs[t])) + float64(c.SumPiSquared[t])
	if len(c.Weights) > 0 {
		x *= float64(c.Weights[t]) * float64(c.Weights[t])
	}
	return x
}

// layOut gives every group its columns, and makes room for the sums.
func (o OptimalBaseline) layOut(c *call, g *groups) {
	c.columns = zeroed(c.columns, g.count())
	for row, k := range g.of {
		lo, hi := c.Row(row)
		of, n := &c.columns[k], count(c.mask[lo:hi])
		if first := slices.Index(c.mask[lo:hi], true); !o.Packed && n > 0 && (first < of.first || of.longest == 0) {
			of.first = first
		}
		if o.Packed && n == 0 {
			continue
		}
		of.rows++
		if n > of.longest {
			of.longest, of.second = n, of.longest
		} else {
			of.second = max(of.second, n)
		}
		if !o.Packed {
			n = hi - lo
		}
		of.width = max(of.width, n)
	}
	n := 0
	for k := range c.columns {
		c.columns[k].start = n
		n += c.columns[k].width
	}
	c.sums, c.toCome = zeroed(c.sums, n), resize(c.toCome, c.Tokens())
}
