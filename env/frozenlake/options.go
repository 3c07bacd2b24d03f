package frozenlake

import (
	"vagen/env"
	"vagen/env/internal/options"
	"vagen/reward"
)

// Rules names a rule set.
type Rules string

// The rule sets.
const (
	Lite   Rules = "lite"
	Legacy Rules = "legacy"
	Next   Rules = "next"
)

// Modes of rendering and of prompting.
const (
	Text   = "text"
	Vision = "vision"
	Full   = "full"
	Brief  = "brief"
)

// Options are an environment's settings; DefaultOptions returns the published ones. The
// tags are their names in configurations.
type Options struct {
	// Rules selects the other defaults and the behaviour in the table below.
	//
	//	                      lite                        legacy
	//	action words          any case                    Left, Down, Right, Up
	//	"success" pays        SuccessReward               10, and 9 again after the end
	//	"format" pays if      format correct and at       format correct and every
	//	                      least one action valid      action valid
	//	format instructions   in the system prompt        after every observation, too
	//
	// Next is Lite with the formats of August 2026: the whole response must have the
	// shape, and answers of too many actions are malformed. Success pays once.
	Rules Rules `option:"rules" kind:"text"`

	Size       int      `option:"size"`             // rows and columns, 2..64
	P          float64  `option:"p"`                // probability of a frozen cell
	Desc       []string `option:"desc" kind:"text"` // rows of a fixed map instead of a generated one
	MapSeed    *int64   `option:"map_seed"`         // seed of one map for all episodes; the episodes' seeds then only determine slips
	Slippery   bool     `option:"is_slippery"`
	SlipProb   float64  `option:"slip_prob"` // probability that a move goes to one of its sides; lite only
	MaxActions int      `option:"max_actions_per_step"`
	ActionSep  string   `option:"action_sep" kind:"text"`

	RenderMode string `option:"render_mode" kind:"text"` // Text or Vision
	TileSize   int    `option:"tile_size"`               // pixels of a cell's side, 14..128
	Shading    bool   `option:"shading"`                 // colours depend on row and column, so that the picture of a cell shows its position
	Cracks     bool   `option:"cracks"`                  // cells show at their edges where holes and the shore are

	PromptFormat     string   `option:"prompt_format" kind:"text"` // a format of the rule set, see package reward
	Prompt           string   `option:"prompt" kind:"text"`        // Full, or Brief for models with a small vocabulary
	UseExample       bool     `option:"use_example_in_sys_prompt"`
	StrictFormat     bool     `option:"strict_format"`                                 // a malformed turn does nothing; next only
	ImagePlaceholder string   `option:"image_placeholder" kind:"text"`                 // must be env.ImageMark; accepted for old configurations
	SpecialTokens    []string `option:"special_token_list" kind:"text" rules:"legacy"` // removed from sections

	SuccessReward float64 `option:"success_reward" rules:"lite next"`
	FormatReward  float64 `option:"format_reward"`
	HolePenalty   float64 `option:"hole_penalty"` // subtracted on the turn that ends in a hole
	TurnCost      float64 `option:"turn_cost"`    // subtracted on every turn

	// ObservationReward and PredictionReward are the weights of rewards for sections that
	// describe the state in the words of Env.Describe: the share of correct words times the
	// weight, in turns whose format is rewarded. With DescribeHoles the observation must
	// include the neighbour cells.
	ObservationReward float64 `option:"observation_reward"`
	PredictionReward  float64 `option:"prediction_reward"`
	DescribeHoles     bool    `option:"describe_holes"`

	// UseStateReward attaches claims for a judge to the outcomes of turns whose
	// format is rewarded; the weights are those of a perfect claim. Not lite.
	UseStateReward      bool    `option:"use_state_reward"`
	GroundingWeight     float64 `option:"grounding_reward_weight"`
	WorldModelingWeight float64 `option:"worldmodeling_reward_weight"`

	// MinActions has no effect, as in the original.
	MinActions int `option:"min_actions_to_succeed" unread:"no rule of this environment reads it, as in the original"`
}

// DefaultOptions returns the published settings of a rule set, with pictures of 28
// pixels a cell. For an unknown rule set it returns those of Lite.
func DefaultOptions(r Rules) Options {
	o := Options{
		Rules: Lite, Size: 4, P: 0.8, MaxActions: 5, ActionSep: ",",
		RenderMode: Text, TileSize: 28, Shading: true, Cracks: true,
		PromptFormat: "free_think", Prompt: Full, UseExample: true, ImagePlaceholder: env.ImageMark,
		SuccessReward: 1, FormatReward: 0.02,
	}
	if r == Next {
		o.Rules, o.StrictFormat = Next, true
		o.GroundingWeight, o.WorldModelingWeight = 0.006, 0.006
	}
	if r == Legacy {
		o.Rules, o.RenderMode, o.MaxActions, o.MinActions = Legacy, Vision, 3, 5
		o.PromptFormat, o.FormatReward = "grounding_worldmodeling", 0.5
		o.SpecialTokens = []string{"<think>", "</think>", "<answer>", "</answer>"}
		o.GroundingWeight, o.WorldModelingWeight = 0.5, 0.5
	}
	return o
}

// FromConfig creates an environment from named options on top of the defaults of the
// rule set that the option "rules" names (Lite by default). It is an env.Factory.
func FromConfig(config map[string]any) (env.Env, error) {
	o, err := options.Read("frozenlake", config, DefaultOptions)
	if err != nil {
		return nil, err
	}
	return New(o)
}

// Validate returns an error that lists all invalid options.
func (o *Options) Validate() error {
	f := options.Check("frozenlake")
	f.ActionSep(o.ActionSep)
	f.ImagePlaceholder(o.ImagePlaceholder)
	if o.MapSeed != nil && *o.MapSeed < 0 {
		f.Addf("map_seed", "%d is negative", *o.MapSeed)
	}
	f.Positive("max_actions_per_step", o.MaxActions)
	probability := func(name string, p float64) {
		if !(p >= 0 && p <= 1) {
			f.Addf(name, "%v is not a probability", p)
		}
	}
	probability("p", o.P)
	f.OneOf("prompt", o.Prompt, Full, Brief)
	if formats := promptFormats(o.Rules); formats != nil {
		f.OneOf("prompt_format", o.PromptFormat, formats...)
	}
	f.OneOf("render_mode", o.RenderMode, Text, Vision)
	f.OneOf("rules", string(o.Rules), string(Lite), string(Legacy), string(Next))
	if len(o.Desc) == 0 {
		options.Within(f, "size", o.Size, minSize, maxSize)
	}
	probability("slip_prob", o.SlipProb)
	if o.Rules == Legacy && o.SlipProb != 0 {
		f.Addf("slip_prob", "%v: the legacy rules have is_slippery only", o.SlipProb)
	}
	if o.Rules != Next && o.StrictFormat {
		f.Addf("strict_format", "the %s rules have no such option; next have", o.Rules)
	}
	options.Within(f, "tile_size", o.TileSize, minTile, maxTile)
	if len(o.Desc) > 0 && o.MapSeed != nil {
		f.Addf("map_seed", "%d, but desc gives the map; leave one of them out", *o.MapSeed)
	}
	options.Unread(f, string(o.Rules), *o, DefaultOptions(o.Rules))
	f.StateReward(o.UseStateReward, string(o.Rules), o.PromptFormat)
	return f.Err()
}

// promptFormats returns the formats that have a prompt in this environment.
func promptFormats(r Rules) []string { return options.Formats(string(r), reward.Lite) }
