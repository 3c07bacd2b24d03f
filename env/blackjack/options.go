package blackjack

import (
	"fmt"
	"strings"

	"vagen/env"
	"vagen/env/internal/options"
)

// Modes of rendering.
const (
	Text   = "text"
	Vision = "vision"
)

// Options are an environment's settings; DefaultOptions returns the published ones. The tags
// are their names in configurations.
type Options struct {
	RenderMode       string   `option:"render_mode" kind:"text"`   // Text or Vision
	PromptFormat     string   `option:"prompt_format" kind:"text"` // a legacy format, see package reward
	ActionSep        string   `option:"action_sep" kind:"text"`
	MaxActions       int      `option:"max_actions_per_step"` // 1: one decision a turn
	UseExample       bool     `option:"use_example_in_sys_prompt"`
	ImagePlaceholder string   `option:"image_placeholder" kind:"text"`  // must be env.ImageMark; accepted for old configurations
	SpecialTokens    []string `option:"special_token_list" kind:"text"` // removed from sections
	FormatReward     float64  `option:"format_reward"`
	// InvalidReward is the reward of a turn without a known action.
	InvalidReward float64 `option:"invalid_reward"`

	// UseStateReward attaches claims for a judge to the outcomes of turns whose
	// format is rewarded; the weights are those of a perfect claim.
	UseStateReward      bool    `option:"use_state_reward"`
	GroundingWeight     float64 `option:"grounding_reward_weight"`
	WorldModelingWeight float64 `option:"worldmodeling_reward_weight"`

	// EnvName is "blackjack" or "". The others are accepted for old configurations:
	// in the original, too, they change nothing.
	EnvName string `option:"env_name" kind:"text"`
	Natural bool   `option:"natural" noted:"the original's bonus for a natural is never paid"`
	Sab     bool   `option:"sab" noted:"it changes the bonus for a natural, which is never paid"`
}

// DefaultOptions returns the published settings.
func DefaultOptions() Options {
	return Options{
		RenderMode: Vision, PromptFormat: "free_think", ActionSep: ",", MaxActions: 1, UseExample: true,
		ImagePlaceholder: env.ImageMark, SpecialTokens: []string{"<think>", "</think>", "<answer>", "</answer>"},
		FormatReward: 0.5, InvalidReward: -0.1, GroundingWeight: 0.5, WorldModelingWeight: 0.5,
	}
}

// FromConfig creates an environment from named options on top of the defaults. It is an
// env.Factory.
func FromConfig(config map[string]any) (env.Env, error) {
	o := DefaultOptions()
	if err := env.Decode(config, &o); err != nil {
		return nil, fmt.Errorf("blackjack: %w", err)
	}
	return New(o)
}

// Validate returns an error that lists all invalid options.
func (o *Options) Validate() error {
	f := options.Check("blackjack")
	f.OneOf("render_mode", o.RenderMode, Text, Vision)
	f.OneOf("prompt_format", o.PromptFormat, "no_think", "free_think", "grounding", "worldmodeling", "grounding_worldmodeling")
	if o.UseStateReward && !strings.Contains(o.PromptFormat, "grounding") && !strings.Contains(o.PromptFormat, "worldmodeling") {
		f.Addf("use_state_reward", "the format %q contains no statements about the state; use grounding, worldmodeling or grounding_worldmodeling", o.PromptFormat)
	}
	if o.MaxActions != 1 {
		f.Addf("max_actions_per_step", "%d, must be 1", o.MaxActions)
	}
	f.EnvName(o.EnvName, "blackjack")
	f.ActionSep(o.ActionSep)
	f.ImagePlaceholder(o.ImagePlaceholder)
	return f.Err()
}
