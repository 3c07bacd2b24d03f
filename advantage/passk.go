package advantage

import (
	"cmp"
	"math"
	"slices"
)

// PassK rewards a row for what it adds to the best of k rows. With the scores of
// a Group in rising order, s1 ≤ … ≤ sn, where a score is the sum of all rewards of
// a row,
//
//	a1 = 0,   a(i+1) = ai + C(i, k−1)/C(n, k)·(s(i+1) − si),   A = a / (std + ε)
//
// which is the mean, over all choices of k rows of the group, of the amount by which the
// best score of the choice decreases without the row. It is 0 for choices in which the row
// is not the best. std divides by n − 1. With k = n the best row gets its lead over the
// second best, and the others get 0. Equal scores have equal
// advantages. Every token under the mask gets the row's advantage, others 0;
// returns are the same numbers. No critic, no whitening.
//
// In a group of one, or of fewer rows than K, there is nothing to compare: A is 0.
// The mask is Loss, or Attention without a loss mask. A batch
// without Group is an ErrNoGroup.
//
// See Tang et al., arXiv:2503.19595, for k = n, as verl has it, and Walder and
// Karkhanis, arXiv:2505.15201, eq. 33, for smaller k. Config name: grpo_passk.
type PassK struct {
	K         int     // rows to choose, 2 or more; 0 means all of the group
	NormByStd bool    // divide by the group's standard deviation
	Epsilon   float64 `needs:"NormByStd"` // ε; 0 means DefaultEpsilon
}

// Estimate implements [Estimator].
func (k PassK) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "grpo_passk", k.run)
}

func (pk PassK) run(c *call) error {
	eps, err := epsilon(pk.Epsilon)
	if err != nil {
		return err
	}
	if pk.K < 0 || pk.K == 1 {
		return errParameter("k", float64(pk.K), "2 or more, or 0 for the whole group")
	}
	g, scores, err := c.scoredGroups()
	if err != nil {
		return err
	}
	rows := g.ascending(scores)
	for k, n := range g.size {
		by := 1.0
		switch {
		case n < max(2, pk.K):
			by = math.Inf(1)
		case pk.NormByStd:
			by = math.Sqrt(g.m2[k]/float64(n-1)) + eps
		}
		pk.advantages(rows[:n], scores, by)
		rows = rows[n:]
	}
	return c.finishBroadcast(scores)
}

// advantages replaces the scores of a group's rows, in rising order, by their
// advantages.
func (k PassK) advantages(rows []int, scores []float64, by float64) {
	n := len(rows)
	choose := k.K
	if choose == 0 {
		choose = n
	}
	// From the best row down, C(i, k−1)/C(n, k) is the previous one times (i+1−(k−1))/(i+1).
	share := float64(choose) / float64(n)
	for i := n - 1; i > 0; i-- {
		scores[rows[i]] = share * (scores[rows[i]] - scores[rows[i-1]]) / by
		share *= float64(max(0, i-choose+1)) / float64(i)
	}
	scores[rows[0]] = 0
	for i := 1; i < n; i++ {
		scores[rows[i]] += scores[rows[i-1]]
	}
}

// ascending returns the items group by group, in the order of their scores, equal
// ones by number.
func (g *groups) ascending(scores []float64) []int {
	g.order = resize(g.order, len(g.of))
	for i := range g.order {
		g.order[i] = i
	}
	slices.SortFunc(g.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(g.of[a], g.of[b]), cmp.Compare(scores[a], scores[b]), cmp.Compare(a, b))
	})
	return g.order
}
