package advantage

import (
	"fmt"
	"math"
)

// TrajectoryGRPO compares the episodes of a group with each other, however many
// rows an episode consists of: every token that the model wrote gets
//
//	A = (s − mean) / (std + ε),   std² = Σ (s − mean)² / n
//
// where s is the sum of an episode's rewards under the mask, and mean and std
// are taken over the episodes with the same Group, each counted once. Note the
// division by n, whereas [GRPO] divides by n − 1. Equal scores and groups of one
// give 0. Returns are the same numbers; both are 0 off the mask. No critic, no
// whitening, no turn ids.
//
// The mask is Loss, or Attention without a loss mask. A batch
// without Group is an ErrNoGroup, two different rows with one identity are an
// ErrConflict.
//
// Config name: trajectory_grpo.
type TrajectoryGRPO struct {
	NormByStd bool    // divide by the group's standard deviation
	Epsilon   float64 `needs:"NormByStd"` // ε; 0 means DefaultEpsilon
}

// Estimate implements [Estimator].
func (g TrajectoryGRPO) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "trajectory_grpo", g.run)
}

func (tg TrajectoryGRPO) run(c *call) error {
	eps, err := epsilon(tg.Epsilon)
	if err != nil {
		return err
	}
	e, g, scores, err := c.scoredEpisodes()
	if err != nil {
		return err
	}
	for k, s := range scores {
		a := s - g.mean[g.of[k]]
		if tg.NormByStd {
			a /= math.Sqrt(g.m2[g.of[k]]/float64(g.size[g.of[k]])) + eps
		}
		scores[k] = a
	}
	return c.finishBroadcast(c.byRow(e, scores))
}

// episodeSums stitches the rows and returns the sum of each episode's rewards under the mask. The caller may
// overwrite it.
func (c *call) episodeSums() (*episodes, []float64, error) {
	e, err := c.stitch()
	if err != nil {
		return nil, nil, err
	}
	c.scores = resize(c.scores, e.count())
	for k := range c.scores {
		c.scores[k] = 0
		for _, row := range e.rows(k) {
			c.scores[k] += c.maskedSum(row)
		}
	}
	return e, c.scores, nil
}

// scoredEpisodes is episodeSums under the loss mask, with the episodes in their groups.
func (c *call) scoredEpisodes() (*episodes, *groups, []float64, error) {
	if len(c.Group) == 0 && c.Rows() > 0 {
		return nil, nil, nil, fmt.Errorf("group: %w", ErrNoGroup)
	}
	c.mask = c.lossMask()
	e, scores, err := c.episodeSums()
	if err != nil {
		return nil, nil, nil, err
	}
	c.ids = resize(c.ids, e.count())
	for k := range c.ids {
		c.ids[k] = c.Group[e.rows(k)[0]]
	}
	g := &c.groups
	g.assign(c.ids)
	g.score(scores)
	return e, g, scores, nil
}

// byRow gives each row its episode's number.
func (c *call) byRow(e *episodes, x []float64) []float64 {
	c.perRow = resize(c.perRow, c.Rows())
	for row, k := range e.of {
		c.perRow[row] = x[k]
	}
	return c.perRow
}
