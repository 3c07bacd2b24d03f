package config

import (
	"slices"

	"vagen/reward"
	"vagen/reward/judge"
	"vagen/rollout/filter"
)

// FilterConfig drops groups of episodes before the update. Settings are those of
// package rollout/filter.
type FilterConfig struct {
	Enable   bool           `yaml:"enable" doc:"drop groups of episodes with little learning signal before the update"`
	Name     string         `yaml:"name" default:"reward_variance_top_p" noted:"filter.enable is false" doc:"filter by name: reward_variance, reward_variance_top_k, reward_variance_top_p, reward_variance_min_p, drop_equal (dapo), none"`
	Settings map[string]any `yaml:"filter_kwargs" default:"{}" noted:"filter.enable is false" doc:"settings of the filter; a mapping adds to that of a preset, and null removes a setting"`
}

// RewardConfig sets how rewards are clipped and normalised before the estimator gets
// them. The scaled quantity is the reward at one token: that of a turn, with
// use_multi_turn_reward false that of the episode, with section_end that of a section.
// A block state_reward in env.config overrides credit_site and aggregation.
type RewardConfig struct {
	Site      string   `yaml:"credit_site" default:"turn_end" oneof:"turn_end section_end" doc:"token that gets the reward for a section of a response, such as observation: turn_end, or section_end for the section's last token"`
	Aggregate string   `yaml:"aggregation" default:"per_turn" oneof:"per_turn episode_mean" doc:"how state rewards of turns are combined: per_turn keeps each turn's reward; episode_mean replaces them by their mean over the turns, times the maximum number of turns"`
	ClipLow   *float64 `yaml:"clip_low" range:"-1e+12,1e+12" doc:"smallest reward; null is no bound"`
	ClipHigh  *float64 `yaml:"clip_high" range:"-1e+12,1e+12" doc:"largest reward; null is no bound"`
	Normalize string   `yaml:"normalize" default:"none" oneof:"none batch group environment" doc:"divide rewards by their standard deviation over the batch, group or environment; none disables it"`
	Center    bool     `yaml:"center" idle:"reward.normalize is none" doc:"also subtract the mean"`
	Running   bool     `yaml:"running" idle:"reward.normalize is none" doc:"use the statistics of all steps so far instead of the current step's"`
	Epsilon   float64  `yaml:"epsilon" default:"1e-8" range:"0,1e+12" idle:"reward.normalize is none" doc:"added to the standard deviation"`
	Limit     float64  `yaml:"limit" range:"0,1e+12" idle:"reward.normalize is none" doc:"normalised rewards are clipped to ± this; 0 is no bound"`
}

// SectionEnd is a value of credit_site, EpisodeMean one of aggregation.
const (
	SectionEnd  = judge.SectionEnd
	EpisodeMean = judge.EpisodeMean
)

// Placement returns which tokens get rewards.
func (c *Config) Placement() reward.Placement {
	if !c.Rollout.MultiTurnReward {
		return reward.AtLast
	}
	if site, _ := c.Credit(); site == SectionEnd {
		return reward.PerSpan
	}
	return reward.PerTurn
}

// Credit returns which token gets the rewards of a turn's sections, and how those of
// an episode's turns are combined. If the environment's block state_reward is enabled
// it decides, otherwise reward.credit_site and reward.aggregation.
func (c *Config) Credit() (site, aggregation string) {
	if block := c.stateReward(); block.Enabled() {
		return block.Site, block.Aggregation
	}
	return c.Reward.Site, c.Reward.Aggregate
}

// stateReward is the block of the environment; nil if there is none, or it has errors.
func (c *Config) stateReward() *judge.StateReward {
	block, _, err := judge.TakeStateReward(c.Env.Config)
	if err != nil {
		return nil
	}
	return block
}

// Normalizer returns the configured normaliser, nil for none.
func (c *RewardConfig) Normalizer() *reward.Normalizer {
	if c.Normalize == "none" {
		return nil
	}
	return &reward.Normalizer{Scope: reward.Scope(c.Normalize), Center: c.Center, Running: c.Running, Epsilon: c.Epsilon,
		Limit: c.Limit}
}

// Changes reports whether rewards are clipped or normalised.
func (c *RewardConfig) Changes() bool {
	return c.ClipLow != nil || c.ClipHigh != nil || c.Normalize != "none"
}

// shaping checks filter and reward settings.
func (v *validator) shaping(c *Config, r Registries) {
	w := &c.Reward
	if site, _ := c.Credit(); site == SectionEnd && !c.Rollout.MultiTurnReward {
		v.Say("{reward.credit_site} is section_end, but {rollout_manager.use_multi_turn_reward} is false, which puts all rewards at the end of the row")
	}
	if w.ClipLow != nil && w.ClipHigh != nil && *w.ClipLow > *w.ClipHigh {
		v.Say("{reward.clip_low} is %v, but {reward.clip_high} is %v: it must not be smaller", *w.ClipLow, *w.ClipHigh)
	}
	if w.Normalize == string(reward.ByGroup) && w.Running {
		v.Say("{reward.running} keeps statistics from step to step, but {reward.normalize} is group, and groups last one step")
	}
	if w.Normalize == string(reward.ByGroup) && c.Rollout.Trajectories < 2 && !c.Rollout.MultiTurnReward {
		v.Say("{reward.normalize} compares the episodes of a group, but {rollout_manager.n_trajectory} is %d",
			c.Rollout.Trajectories)
	}
	if _, err := r.Filters.New(c.Filter.Name, c.Filter.Settings); err != nil { // enabled or not
		v.Add("filter", err) // it begins with the section's name
	}
	ours := slices.Contains(filter.Builtin().Names(), c.Filter.Name) && c.Filter.Name != "none"
	if c.Filter.Enable && ours && c.Rollout.Trajectories < 2 {
		v.Say("{filter.name} %s compares the episodes of a group, but {rollout_manager.n_trajectory} is %d", c.Filter.Name,
			c.Rollout.Trajectories)
	}
	if _, err := r.MetricNames(c); err != nil {
		v.Say("{trainer.metrics}: %w", err)
	}
}
