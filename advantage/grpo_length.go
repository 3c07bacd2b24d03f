package advantage

// LengthGRPO centres scores in their group after episodes paid for their length:
//
//	s' = s − mean·(wo·out/max out + wi·in/max in + wt·turns/max turns),   A = s' − mean'
//
// where s is the sum of an episode's rewards under the mask, out the number of its tokens under
// the mask, in that of its other tokens, turns that of its turns; mean, maxima (at least 1) and
// mean' are taken over the episodes with the same Group. So length costs nothing where the
// group's mean is 0. Nothing is divided by a standard deviation. Returns are the same numbers;
// both are 0 off the mask. No critic, no whitening.
//
// A turn is a run of tokens under the mask; if the batch has TurnEnd, turn ends separate
// adjacent runs. The mask is Loss, or Attention without a loss mask. A batch without Group is an
// ErrNoGroup, two different rows with one identity are an ErrConflict.
//
// As grpo with length_penalty in prime-rl. Its hierarchical_grpo is the same with weights 0 and
// one Group for each agent, or each agent of an episode. Config name: grpo_prime.
type LengthGRPO struct {
	OutputWeight, InputWeight, TurnWeight float64 // wo, wi, wt, not negative
}

// Estimate implements [Estimator].
func (l LengthGRPO) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "grpo_prime", l.run)
}

// lengths are the output tokens, input tokens and turns of an episode, or their maxima.
type lengths [3]float64

func (l LengthGRPO) run(c *call) error {
	weights := lengths{l.OutputWeight, l.InputWeight, l.TurnWeight}
	err := firstError(notNegative("output weight", l.OutputWeight), notNegative("input weight", l.InputWeight),
		notNegative("turn weight", l.TurnWeight))
	if err != nil {
		return err
	}
	e, g, scores, err := c.scoredEpisodes()
	if err != nil {
		return err
	}
	longest := c.longest(e, g)
	for k := range scores {
		share := 0.0
		for i, n := range c.lengths[k] {
			share += weights[i] * n / longest[g.of[k]][i]
		}
		scores[k] -= g.mean[g.of[k]] * share
	}
	g.score(scores)
	for k := range scores {
		scores[k] -= g.mean[g.of[k]]
	}
	return c.finishBroadcast(c.byRow(e, scores))
}

// longest sets the lengths of all episodes and returns the maxima of their groups, at least 1.
func (c *call) longest(e *episodes, g *groups) []lengths {
	attention := c.attentionMask()
	c.lengths, c.longestOf = resize(c.lengths, e.count()), resize(c.longestOf, g.count())
	for k := range c.longestOf {
		c.longestOf[k] = lengths{1, 1, 1}
	}
	for k := range c.lengths {
		var n lengths
		for _, row := range e.rows(k) {
			lo, hi := c.Row(row)
			out := float64(count(c.mask[lo:hi]))
			n[0] += out
			n[1] += float64(count(attention[lo:hi])) - out
			n[2] += float64(c.countTurns(row))
		}
		c.lengths[k] = n
		for i := range n {
			c.longestOf[g.of[k]][i] = max(c.longestOf[g.of[k]][i], n[i])
		}
	}
	return c.longestOf
}
