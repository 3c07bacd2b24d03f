package advantage

// GPG centres scores in their group and rescales for groups without a signal:
//
//	A = α·(s − mean),   α = rows / rows with s ≠ 0
//
// where s is the sum of all rewards of a row and the mean is taken over its
// Group. α is 1 when all scores are 0. A group of one keeps its score, times α.
// Every token under the mask gets the row's advantage, others 0; returns are
// the same numbers. No critic, no division by a standard deviation, no
// whitening.
//
// The mask is Loss, or Attention without a loss mask. A batch
// without Group is an ErrNoGroup.
//
// See Chu et al., arXiv:2504.02546, as in verl, which counts rows with score 0
// as those without a signal. Config name: gpg.
type GPG struct{}

// Estimate implements [Estimator].
func (g GPG) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "gpg", g.run)
}

func (GPG) run(c *call) error {
	g, scores, err := c.scoredGroups()
	if err != nil {
		return err
	}
	useful := 0
	for _, s := range scores {
		if s != 0 {
			useful++
		}
	}
	alpha := 1.0
	if useful > 0 {
		alpha = float64(len(scores)) / float64(useful)
	}
	for row, s := range scores {
		if k := g.of[row]; g.size[k] > 1 {
			s -= g.mean[k]
		}
		scores[row] = alpha * s
	}
	return c.finishBroadcast(scores)
}
