package advantage

import "math"

// HGPO is hierarchy-of-groups policy optimization: it compares a turn with the turns of its
// group that started from the same state, from the same last two states, and so on, and trusts
// longer common histories more.
//
//	ak = (R − mean) / (std + ε),   A = Σ wk·ak / (Σ wk + ε),   wk = (k+1)^α
//
// where R is the discounted sum of the rewards to come in the episode, as in [GiGPO], and mean
// and std (divided by n) are taken over the turns of the Group with the same last k states, this
// one included, for k = 1 … History+1. Only k with another such turn and an R that differs from
// the mean by more than rounding count; a turn without any has advantage 0. With Base the turn's
// episode counts as k = 0: its summed rewards, all tokens included, compared with those of all
// turns of the group (std divided by n − 1; alone: as [GRPO]). Every token of the turn gets A.
// Returns are the same numbers; both are 0 off the mask. No critic, no whitening.
//
// Turns, States, mask and errors are those of [GiGPO]. TurnID is published.
//
// See arXiv:2602.22817, as in verl-agent. Config name: hgpo.
type HGPO struct {
	Gamma     float64 // discount per turn, in [0, 1]
	History   int     // states before the current one that may count, not negative
	Alpha     float64 `needs:"History Base"` // α, in [0, 8]; 0 weighs all k alike
	Base      bool    // compare episodes, too
	NormByStd bool    // divide differences by std + ε
	Epsilon   float64 // ε; 0 means DefaultEpsilon
}

// Estimate implements [Estimator].
func (h HGPO) Estimate(dst *Result, b *Batch) error { return estimate(dst, b, "hgpo", h.run) }

func (h HGPO) run(c *call) error {
	eps, err := epsilon(h.Epsilon)
	err = firstError(err, unit("gamma", h.Gamma), notNegative("history", float64(h.History)))
	if err != nil {
		return err
	}
	if !(h.Alpha >= 0 && h.Alpha <= 8) {
		return errParameter("alpha", h.Alpha, "[0, 8]")
	}
	c.maskOnly = !h.Base
	e, _, scores, err := c.scoredEpisodes()
	if err != nil {
		return err
	}
	s, err := c.steps(e, h.Gamma)
	if err != nil {
		return err
	}
	s.sum, s.weight = zeroed(s.sum, len(s.returns)), zeroed(s.weight, len(s.returns))
	s.shared = append(s.shared[:0], s.ids...)
	for k := 1; k <= h.History+1 && (k == 1 || s.lengthen(k)); k++ {
		s.addLevel(math.Pow(float64(k+1), h.Alpha), h.NormByStd, eps)
	}
	if h.Base {
		c.episodeTurns(e, s, scores)
		for i, r := range s.returns {
			if !s.groups.average(i, r) || s.groups.size[s.groups.of[i]] == 1 {
				s.add(i, 1, s.groups.compare(i, r, h.NormByStd, eps, r))
			}
		}
	}
	for i := range s.sum {
		s.sum[i] /= s.weight[i] + eps
	}
	return c.finishTurns(e, s.sum)
}

// add adds a comparison to the weighted sum of a turn.
func (s *steps) add(i int, weight, a float64) {
	if a != 0 {
		s.sum[i] += float64(weight * a)
		s.weight[i] += weight
	}
}

// lengthen replaces the keys of k−1 states by those of k states; turns with fewer states before
// them get a key of their own. It reports whether any turn has k states.
func (s *steps) lengthen(k int) bool {
	clear(s.number)
	longest := 0
	for e, from := range s.start {
		to := s.end(e)
		longest = max(longest, to-from)
		for i := to - 1; i >= from; i-- {
			if i-from < k-1 {
				s.ids[i] = -1 - i
				continue
			}
			s.ids[i] = s.id(stepKey{s.ids[i-1], uint64(s.shared[i])})
		}
	}
	s.groups.assign(s.ids)
	s.groups.score(s.returns)
	return longest >= k
}

// addLevel adds the comparison of turns with equal keys.
func (s *steps) addLevel(weight float64, normByStd bool, eps float64) {
	g := &s.groups
	for i, r := range s.returns {
		k := g.of[i]
		if g.size[k] < 2 || g.average(i, r) {
			continue
		}
		a := r - g.mean[k]
		if normByStd {
			a /= math.Sqrt(g.m2[k]/float64(g.size[k])) + eps
		}
		s.add(i, weight, a)
	}
}

// average reports whether a score is the mean of its group, up to the rounding of rewards, which are
// float32: sums that are equal on paper differ by less than two units in the last place.
func (g *groups) average(item int, score float64) bool {
	return math.Abs(score-g.mean[g.of[item]]) <= 0x1p-22*max(1, math.Abs(score))
}

// episodeTurns sets the steps' numbers to the score of their episode, the sum of all its
// rewards, and groups them by Group, so that each episode counts once for each of its turns.
func (c *call) episodeTurns(e *episodes, s *steps, scores []float64) {
	for k := range scores {
		scores[k] = 0
		for _, row := range e.rows(k) {
			scores[k] += c.rowSum(row)
		}
		for i := s.start[k]; i < s.end(k); i++ {
			s.ids[i], s.returns[i] = c.Group[e.rows(k)[0]], scores[k]
		}
	}
	s.groups.assign(s.ids)
	s.groups.score(s.returns)
}
