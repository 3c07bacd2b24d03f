package advantage

import (
	"fmt"
	"slices"
)

// RAE subtracts a baseline that each agent carries from batch to batch:
//
//	A = s − b,   then b ← decay·b + (1−decay)·s
//
// where s is the sum of an episode's rewards under the mask and b the baseline of the episode's agent, for the episodes
// in the order of their identities. The baselines before are the batch's Running, those after it the result's. Every
// token under the mask gets its episode's advantage, others 0; returns are the same numbers. No critic, no groups, no
// whitening.
//
// The mask is Loss, or Attention without a loss mask. Rows of one Trajectory are joined in the order of Turn. An Agent
// that Running has no baseline for is an ErrLength. Two different rows with one identity are an ErrConflict.
//
// Role-conditioned advantage estimation, arXiv:2506.24119, as in prime-rl. Config name: rae.
type RAE struct {
	Decay float64 // in [0, 1]
}

// Estimate implements [Estimator].
func (r RAE) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "rae", r.run)
}

func (r RAE) run(c *call) error {
	if err := unit("decay", r.Decay); err != nil {
		return err
	}
	c.mask = c.lossMask()
	e, scores, err := c.episodeSums()
	if err != nil {
		return err
	}
	if overlap(c.running[:cap(c.running)], c.Running) { // the Running of the last result, which the batch keeps
		c.running, c.spareRunning = c.spareRunning, c.running
	}
	c.running = append(c.running[:0], c.Running...)
	if len(c.Agent) == 0 && len(c.running) == 0 {
		c.running = append(c.running, 0)
	}
	for k, s := range scores {
		agent := 0
		if row := e.rows(k)[0]; len(c.Agent) > 0 {
			if agent = c.Agent[row]; agent < 0 || agent >= len(c.running) {
				return fmt.Errorf("agent: row %d: %d, but running has %d baselines: %w", row, agent, len(c.running), ErrLength)
			}
		}
		if !slices.ContainsFunc(e.rows(k), func(row int) bool { return lastTrue(c.rowMask(row)) >= 0 }) {
			continue // the episode has no token under the mask
		}
		b := c.running[agent]
		scores[k] = s - b
		c.running[agent] = float64(r.Decay*b) + float64((1-r.Decay)*s)
	}
	return c.finishBroadcast(c.byRow(e, scores))
}
