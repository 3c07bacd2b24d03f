package advantage

// EpisodeGRPO is [GRPO] for episodes of several rows, each of which has the score of its episode:
//
//	A = (s − mean) / (std + ε),   std² = Σ (s − mean)² / (n − 1)
//
// where s is the sum of all rewards of a row, and mean and std are taken over the first rows of
// the episodes with the same Group, so that each episode counts once. With Joined s is the sum
// over all rows of the episode; without it the rewards must give every row that score already,
// as RAGEN's do. With one episode in the group, mean is 0 and std is 1. Returns are the same
// numbers; both are 0 off the mask. No critic, no whitening.
//
// The mask is Loss, or Attention without a loss mask. A batch without Group is an ErrNoGroup,
// two different rows with one identity are an ErrConflict.
//
// As in RAGEN. Config name: grpo_ragen, with Joined.
type EpisodeGRPO struct {
	NormByStd bool    // divide by std + ε
	Epsilon   float64 `needs:"NormByStd"` // ε; 0 means DefaultEpsilon
	Joined    bool    // add up the rewards of an episode's rows
}

// Estimate implements [Estimator].
func (g EpisodeGRPO) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "grpo_ragen", g.run)
}

func (eg EpisodeGRPO) run(c *call) error {
	eps, err := epsilon(eg.Epsilon)
	if err != nil {
		return err
	}
	e, g, scores, err := c.scoredEpisodes()
	if err != nil {
		return err
	}
	for k := range scores {
		scores[k] = 0
		for i, row := range e.rows(k) {
			if i == 0 || eg.Joined {
				scores[k] += c.rowSum(row)
			}
		}
	}
	g.score(scores)
	c.perRow = resize(c.perRow, c.Rows())
	for row, k := range e.of {
		s := scores[k]
		if !eg.Joined {
			s = c.rowSum(row)
		}
		c.perRow[row] = g.compare(k, s, eg.NormByStd, eps, s)
	}
	return c.finishBroadcast(c.perRow)
}

// rowSum returns the sum of all rewards of a row.
func (c *call) rowSum(row int) float64 { return sum(c.Rewards[c.Offsets[row]:c.Offsets[row+1]]) }
