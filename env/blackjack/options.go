package blackjack

import (
	"vagen/env"
	"vagen/env/internal/options"
	"vagen/env/internal/prompts"
)

// Options are an environment's settings; DefaultOptions returns the published ones. The tags
// are their names in configurations. The format is one of the legacy environments, and
// MaxActions is 1: one decision a turn.
type Options struct {
	options.Response
	options.StateReward
	UseExample    bool    `option:"use_example_in_sys_prompt"`
	InvalidReward float64 `option:"invalid_reward"` // of a turn without a known action

	// EnvName is "blackjack" or "". The others are accepted for old configurations:
	// in the original, too, they change nothing.
	EnvName string `option:"env_name" kind:"text"`
	Natural bool   `option:"natural" noted:"the original's bonus for a natural is never paid"`
	Sab     bool   `option:"sab" noted:"it changes the bonus for a natural, which is never paid"`
}

// DefaultOptions returns the published settings.
func DefaultOptions() Options {
	return Options{
		Response: options.Response{
			RenderMode: env.Vision, PromptFormat: "free_think", ActionSep: ",", MaxActions: 1,
			ImagePlaceholder: env.ImageMark, SpecialTokens: options.LegacyTokens(), FormatReward: 0.5,
		},
		StateReward: options.StateReward{GroundingWeight: 0.5, WorldModelingWeight: 0.5},
		UseExample:  true, InvalidReward: -0.1,
	}
}

// FromConfig creates an environment from named options on top of the defaults. It is an
// env.Factory.
func FromConfig(config map[string]any) (env.Env, error) {
	return options.Make("blackjack", config, func(env.Rules) Options { return DefaultOptions() }, New)
}

// Validate returns an error that lists all invalid options.
func (o *Options) Validate() error {
	c := options.Check("blackjack", o)
	options.CheckResponse(c, &o.Response, []string{"no_think", "free_think", "grounding", "worldmodeling",
		"grounding_worldmodeling"})
	prompts.Load(c, &o.Response, placeholders)
	options.CheckLayout(c, &o.Texts, env.Legacy)
	options.CheckStateReward(c, &o.StateReward, env.Legacy, &o.Response)
	if o.MaxActions > 1 {
		c.Bad("max_actions_per_step", "%d, must be 1", o.MaxActions)
	}
	options.CheckEnvName(c, o.EnvName, "blackjack")
	options.Unread(c, env.Legacy, *o, DefaultOptions())
	return c.Err()
}
