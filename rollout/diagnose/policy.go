package diagnose

import (
	"math"

	"vagen/internal/floats"
	"vagen/rollout/filter"
)

// RewardVariance writes, over the groups with Score as return,
//
//	reward_variance             mean of the variances inside groups
//	reward_variance/min, /max
//	reward_variance/zero_share  share of groups in which all rollouts have the same return
//
// Variances divide by n; a group of one has variance 0 and counts as equal.
func RewardVariance(dst map[string]float64, b *Batch) error {
	if err := b.check(); err != nil {
		return err
	}
	if b.Group == nil || b.Score == nil {
		return nil
	}
	groups, err := filter.Groups(&filter.Batch{Group: b.Group, Return: b.Score, Trajectory: b.Trajectory}, 0)
	if err != nil || len(groups) == 0 {
		return err
	}
	least, most, equal := math.Inf(1), math.Inf(-1), 0
	for _, g := range groups {
		least, most = min(least, g.Variance), max(most, g.Variance)
		if g.Min == g.Max {
			equal++
		}
	}
	dst["reward_variance"] = filter.MeanVariance(groups)
	dst["reward_variance/min"] = least
	dst["reward_variance/max"] = most
	dst["reward_variance/zero_share"] = float64(equal) / float64(len(groups))
	return nil
}

// ExplainedVariance writes
//
//	explained_variance  1 − Var(target − value)/(Var(target) + 1e-5)
//
// over the positions that have a target. 1 means that the critic predicts every return,
// 0 that it is no better than their mean; it can be far below 0. The 1e-5 is that of
// VAGEN's logs. It is written for two positions or more.
func ExplainedVariance(dst map[string]float64, b *Batch) error {
	if err := b.check(); err != nil {
		return err
	}
	target, value, err := b.critic()
	if err != nil || len(target) < 2 {
		return err
	}
	total := floats.MomentsOf(target).Variance()
	for i := range target {
		target[i] -= value[i]
	}
	dst["explained_variance"] = 1 - floats.MomentsOf(target).Variance()/(total+1e-5)
	return nil
}

// critic returns targets and values at the positions that have a target.
func (b *Batch) critic() (target, value []float64, err error) {
	if b.Value == nil || b.Target == nil {
		return nil, nil, nil
	}
	mask := b.Mask
	if b.ValueMask != nil {
		mask = make([]bool, len(b.Mask))
		for i := range mask {
			mask[i] = b.Mask[i] && b.ValueMask[i]
		}
	}
	if target, err = column("target", b.Target, mask); err != nil {
		return nil, nil, err
	}
	value, err = column("value", b.Value, mask)
	return target, value, err
}

// wholeScores returns the scores of rollouts, in the order of their first rows: Score if each has one row.
func (b *Batch) wholeScores() []float64 {
	if b.Trajectory == nil {
		return b.Score
	}
	var out []float64
	at := map[string]int{}
	for row, s := range b.Score {
		k, seen := at[b.Trajectory[row]]
		if !seen {
			k, at[b.Trajectory[row]] = len(out), len(out)
			out = append(out, 0)
		}
		out[k] += s
	}
	return out
}

// Data writes mean, max and min of the training data, under VAGEN's names:
// critic/score over rollouts and, where some have several rows, critic/score/by_row,
// critic/rewards over rows after KL shaping, critic/advantages, critic/returns and
// critic/values over counted tokens, and critic/vf_explained_var.
func Data(dst map[string]float64, b *Batch) error {
	if err := b.check(); err != nil {
		return err
	}
	for _, c := range [...]struct {
		name string
		x    []float64
	}{{"score", b.Score}, {"rewards", b.Shaped}} {
		if err := checkFinite(c.name, c.x); err != nil {
			return err
		}
		spread(dst, "critic/"+c.name, c.x)
	}
	if whole := b.wholeScores(); len(whole) < len(b.Score) {
		spread(dst, "critic/score/by_row", b.Score)
		spread(dst, "critic/score", whole)
	}
	if b.Advantage != nil {
		x, err := column("advantage", b.Advantage, b.Mask)
		if err != nil {
			return err
		}
		spread(dst, "critic/advantages", x)
	}
	target, value, err := b.critic()
	if err != nil {
		return err
	}
	spread(dst, "critic/returns", target)
	spread(dst, "critic/values", value)
	explained := map[string]float64{}
	if err := ExplainedVariance(explained, b); err != nil {
		return err
	}
	if v, ok := explained["explained_variance"]; ok {
		dst["critic/vf_explained_var"] = v
	}
	return nil
}
