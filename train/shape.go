package train

import (
	"fmt"
	"math"
	"strconv"

	"vagen/reward"
	"vagen/train/config"
	"vagen/train/track"
)

// shapeRewards clips and normalises the rewards of a batch at the tokens where they are
// placed. normalizer may be nil.
func shapeRewards(b *batch, config *config.Config, normalizer *reward.Normalizer, m track.Metrics) error {
	c := &config.Reward
	if !c.Changes() {
		return nil
	}
	at := b.credited(config.Placement())
	values, keys := make([]float64, len(at)), make([]string, len(at))
	for i, s := range at {
		values[i] = float64(b.Steps.Rewards[s.token])
		switch reward.Scope(c.Normalize) {
		case reward.ByGroup:
			keys[i] = strconv.Itoa(b.Steps.Group[s.row])
		case reward.ByEnvironment:
			keys[i] = b.Used[b.Of[s.row]].Env
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
	if normalizer != nil {
		if err := normalizer.Apply(values, keys); err != nil {
			return fmt.Errorf("train: %w", err)
		}
	}
	for i, s := range at {
		b.Steps.Rewards[s.token] = float32(values[i])
	}
	return nil
}

// site is a token on which a reward is placed.
type site struct{ row, token int }

// credited returns the tokens of a batch on which rewards may be placed: turn ends and the
// ends of rewarded sections, or only the last turn end of each row.
func (b *batch) credited(how reward.Placement) []site {
	var out []site
	for row := range b.Rows.Len() {
		first := len(out)
		for i := b.Rows.Offsets[row]; i < b.Rows.Offsets[row+1]; i++ {
			if b.Steps.TurnEnd[i] || b.Steps.Rewards[i] != 0 {
				out = append(out, site{row, i})
			}
		}
		if n := len(out); how == reward.AtLast && n > first {
			out = append(out[:first], out[n-1])
		}
	}
	return out
}
