package advantage

import "math"

// GraphGPO rewards the turns of a group by how near they come to success in the graph of the
// states that the group's episodes visited:
//
//	R = 10·γ^d(next),   A = AE·ωE + ω·(R − mean) / (std + ε)
//
// where d is the number of turns from a state to success along edges from State to Next, at
// least; a state from which none leads to success counts as one more than the farthest other, or
// 1 if no episode succeeded. With Relative the exponent is d(next) − d(state) + 1. Mean and std
// are taken over the turns of the Group with the same State; a state visited once has 0. AE
// compares the summed rewards of the turn's episode, all tokens included, with those of all
// turns of the group (alone: as [GRPO]). Standard deviations divide by n − 1. Every token of the
// turn gets A; returns are the same numbers; both are 0 off the mask. No critic, no whitening.
//
// The environment's rewards count in AE only. A γ of 1 makes all R equal.
//
// Next holds the key of the state after each turn, as States does before it, and [SuccessState]
// where the episode ended with success; other counts are an ErrLength, without any an ErrNoGroup.
// Turns, States, mask and other errors are those of [GiGPO]. TurnID is published.
//
// See arXiv:2605.26684, as in verl-agent, without its merging of similar states. Config name:
// graphgpo.
type GraphGPO struct {
	Gamma         float64 `needs:"StepWeight"` // γ, per turn of distance, in [0, 1]; the original uses 0.1
	StepWeight    float64 // ω, not negative
	EpisodeWeight float64 // ωE, not negative
	Relative      bool    `needs:"StepWeight"` // measure how much nearer a turn comes
	NormByStd     bool    // divide both differences by std + ε
	Epsilon       float64 `needs:"NormByStd"` // ε; 0 means DefaultEpsilon
}

// SuccessState is the key in Batch.Next of a turn that ended its episode with success.
const SuccessState uint64 = math.MaxUint64

// Estimate implements [Estimator].
func (g GraphGPO) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "graphgpo", g.run)
}

func (g GraphGPO) run(c *call) error {
	eps, err := epsilon(g.Epsilon)
	err = firstError(err, unit("gamma", g.Gamma), notNegative("step weight", g.StepWeight),
		notNegative("episode weight", g.EpisodeWeight))
	if err != nil {
		return err
	}
	e, groups, scores, err := c.scoredEpisodes()
	if err != nil {
		return err
	}
	s, err := c.steps(e, 0)
	if err != nil {
		return err
	}
	if err := oneEach("next", c.Next, len(c.States)); err != nil {
		return err
	}
	s.link(c, e)
	s.measure(groups)
	for i, to := range s.shared {
		d := s.distance[to]
		if g.Relative {
			d += 1 - s.distance[s.ids[i]]
		}
		s.returns[i] = 10 * math.Pow(g.Gamma, d)
	}
	s.groups.score(s.returns)
	total := resize(s.sum, len(s.returns))
	s.sum = total
	for i, r := range s.returns {
		total[i] = float64(g.StepWeight * s.groups.compare(i, r, g.NormByStd, eps, 0))
	}
	c.episodeTurns(e, s, scores)
	for i, r := range s.returns {
		total[i] += float64(g.EpisodeWeight * s.groups.compare(i, r, g.NormByStd, eps, r))
	}
	return c.finishTurns(e, total)
}

// link sets shared to the numbers of the states after the turns, and the distances of the
// successes to 0, of all others to infinity.
func (s *steps) link(c *call, e *episodes) {
	s.shared, s.distance = s.shared[:0], s.distance[:0]
	for k := range e.count() {
		for _, row := range e.rows(k) {
			for _, state := range c.Next[s.first[row]:s.first[row+1]] {
				s.shared = append(s.shared, s.id(stepKey{c.Group[row], state}))
			}
		}
	}
	for range len(s.number) {
		s.distance = append(s.distance, math.Inf(1))
	}
	for key, id := range s.number {
		if key.state == SuccessState {
			s.distance[id] = 0
		}
	}
}

// measure computes the distances to success. It relaxes the edges, last ones first, until
// nothing changes, which takes few passes because episodes are stored in order.
func (s *steps) measure(groups *groups) {
	for changed := true; changed; {
		changed = false
		for i := len(s.shared) - 1; i >= 0; i-- {
			if d := s.distance[s.shared[i]] + 1; d < s.distance[s.ids[i]] {
				s.distance[s.ids[i]], changed = d, true
			}
		}
	}
	farthest := zeroed(s.weight, groups.count())
	s.weight = farthest
	for key, id := range s.number {
		if d := s.distance[id]; !math.IsInf(d, 1) {
			k := groups.number[key.group]
			farthest[k] = max(farthest[k], d)
		}
	}
	for key, id := range s.number {
		if math.IsInf(s.distance[id], 1) {
			s.distance[id] = farthest[groups.number[key.group]] + 1
		}
	}
}
