package train

import (
	"fmt"
	"math"
	"strconv"

	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
	"vagen/train/track"
)

// shape clips and normalises the rewards of a batch, each at the token where it is
// credited.
func (t *Trainer) shape(b *batch, m track.Metrics) error {
	c := &t.Config.Reward
	if !c.Changes() {
		return nil
	}
	at := b.credited(t.Config.Placement())
	values, keys := make([]float64, len(at)), make([]string, len(at))
	for i, s := range at {
		values[i] = float64(b.adv.Rewards[s.token])
		switch reward.Scope(c.Normalize) {
		case reward.ByGroup:
			keys[i] = strconv.Itoa(b.adv.Group[s.row])
		case reward.ByEnvironment:
			keys[i] = b.used[b.trajectory[s.row]].Env
		}
	}
	low, high := math.Inf(-1), math.Inf(1)
	if c.ClipLow != nil {
		low = *c.ClipLow
	}
	if c.ClipHigh != nil {
		high = *c.ClipHigh
	}
	m["reward/clipped"] = float64(reward.Clip(values, low, high)) / float64(len(values))
	if t.normalizer != nil {
		if err := t.normalizer.Apply(values, keys); err != nil {
			return fmt.Errorf("train: %w", err)
		}
	}
	for i, s := range at {
		b.adv.Rewards[s.token] = float32(values[i])
	}
	return nil
}

// markSections finds the sections of responses where rewards are to sit on them.
func (t *Trainer) markSections(ts []*rollout.Trajectory) error {
	a, ok := t.Learner.(policy.Aligner)
	if !ok || t.Config.Placement() != reward.PerSpan {
		return nil
	}
	var usable []*rollout.Trajectory
	for _, e := range ts {
		if e.End.Usable() {
			usable = append(usable, e)
		}
	}
	if err := rollout.MarkSpans(a, usable); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return nil
}

// site is a token at which a reward is credited.
type site struct{ row, token int }

// credited lists the tokens of a batch that rewards may sit on: turn ends and the
// ends of paid sections, or the last turn end of each row alone.
func (b *batch) credited(how reward.Placement) []site {
	var out []site
	for row := range b.rows.Len() {
		first := len(out)
		for i := b.rows.Offsets[row]; i < b.rows.Offsets[row+1]; i++ {
			if b.adv.TurnEnd[i] || b.adv.Rewards[i] != 0 {
				out = append(out, site{row, i})
			}
		}
		if n := len(out); how == reward.AtLast && n > first {
			out = append(out[:first], out[n-1])
		}
	}
	return out
}
