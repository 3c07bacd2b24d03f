package advantage

// OPO subtracts the baseline that minimises the variance of the gradient when
// its size grows with the length of the response: the mean of the group's
// scores weighted by length,
//
//	A = s − Σ l·s / Σ l
//
// where s is the sum of all rewards of a row, l the number of its tokens under
// the mask, and the sums run over the rows of its Group. A group of one, and a
// group without any token under the mask, has baseline 0. Every token under the
// mask gets the row's advantage, others 0; returns are the same numbers. No
// critic, no division by a standard deviation, no whitening.
//
// The mask is Loss, or Attention without a loss mask. A batch
// without Group is an ErrNoGroup.
//
// See Hao et al., arXiv:2505.23585. Config name: opo.
type OPO struct{}

// Estimate implements [Estimator].
func (o OPO) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "opo", o.run)
}

func (OPO) run(c *call) error {
	g, scores, err := c.scoredGroups()
	if err != nil {
		return err
	}
	// The group's spread is not needed; its place holds the summed lengths.
	weighted, lengths := g.mean, g.m2
	clear(weighted)
	clear(lengths)
	for row, s := range scores {
		l := float64(count(c.mask[c.Offsets[row]:c.Offsets[row+1]]))
		weighted[g.of[row]] += float64(l * s)
		lengths[g.of[row]] += l
	}
	for row, s := range scores {
		if k := g.of[row]; g.size[k] > 1 && lengths[k] > 0 {
			scores[row] = s - weighted[k]/lengths[k]
		}
	}
	return c.finishBroadcast(scores)
}
