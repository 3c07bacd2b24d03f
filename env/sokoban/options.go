package sokoban

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
	//	action words          any case                    Up, Down, Left, Right
	//	"success" pays        SuccessReward               10
	//	other rewards         none                         "move" −0.1 for each move, "box" ±1
	//	                                                  when a box gets on or off a target
	//	"format" pays if      at least one action valid   every action valid
	//	format instructions   in the system prompt        after every observation, too
	//
	// Next is Lite with the formats of August 2026: the whole response must have the
	// shape, and answers of too many actions are malformed. Success pays once, and
	// Retry is RetryLCG.
	Rules Rules `option:"rules" kind:"text"`

	Room       [2]int   `option:"dim_room"`         // rows and columns, walls included, 3..32 each
	Boxes      int      `option:"num_boxes"`        // 1..9
	Desc       []string `option:"desc" kind:"text"` // rows of a fixed room as Parse reads them
	MaxActions int      `option:"max_actions_per_step"`
	ActionSep  string   `option:"action_sep" kind:"text"`

	// MinSolution accepts only rooms whose shortest solution has a number of
	// moves in this range, searched up to SolveDepth moves; a room without one
	// counts as 0. Nil accepts all. Lite only.
	MinSolution *[2]int `option:"min_solution_steps"`
	SolveDepth  int     `option:"min_solution_bfs_max_depth" rules:"lite next"`
	MaxTries    int     `option:"reset_seed_max_tries"` // seeds tried at each Reset
	// Retry chooses the next seed after one that gave no accepted room.
	Retry RetryRule `option:"retry" kind:"text"`

	RenderMode string `option:"render_mode" kind:"text"` // Text or Vision
	TileSize   int    `option:"tile_size"`               // pixels of a cell's side, 14..128
	Shading    bool   `option:"shading"`                 // colours depend on row and column, so that the picture of a cell shows its position
	Edges      bool   `option:"edges"`                   // free cells show at their edges where walls and boxes are

	PromptFormat     string   `option:"prompt_format" kind:"text"` // a format of the rule set, see package reward
	Prompt           string   `option:"prompt" kind:"text"`        // Full, or Brief for models with a small vocabulary
	UseExample       bool     `option:"use_example_in_sys_prompt"`
	StrictFormat     bool     `option:"strict_format"`                                 // a malformed turn does nothing; next only
	ImagePlaceholder string   `option:"image_placeholder" kind:"text"`                 // must be env.ImageMark; accepted for old configurations
	SpecialTokens    []string `option:"special_token_list" kind:"text" rules:"legacy"` // removed from sections

	SuccessReward float64 `option:"success_reward" rules:"lite next"`
	FormatReward  float64 `option:"format_reward"`
	TurnCost      float64 `option:"turn_cost"` // subtracted on every turn

	// ObservationReward and PredictionReward are the weights of rewards for sections that
	// describe the state in the words of Env.Describe: the share of correct words times the
	// weight, in turns whose format is rewarded. With DescribeMoves the observation must
	// include the neighbour cells.
	ObservationReward float64 `option:"observation_reward"`
	PredictionReward  float64 `option:"prediction_reward"`
	DescribeMoves     bool    `option:"describe_moves"`

	// UseStateReward attaches claims for a judge to the outcomes of turns whose
	// format is rewarded; the weights are those of a perfect claim. Not lite.
	UseStateReward      bool    `option:"use_state_reward"`
	GroundingWeight     float64 `option:"grounding_reward_weight"`
	WorldModelingWeight float64 `option:"worldmodeling_reward_weight"`

	// MaxSteps never ends an episode, as in the original. MinActions is used when the seeds
	// of a data set are selected, see package dataset.
	MaxSteps   int `option:"max_steps" noted:"it ends no episode, as in the original"`
	MinActions int `option:"min_actions_to_succeed" noted:"package dataset reads it where it chooses seeds"`
}

// DefaultOptions returns the published settings of a rule set, with pictures of 28
// pixels a cell. For an unknown rule set it returns those of Lite.
func DefaultOptions(r Rules) Options {
	o := Options{
		Rules: Lite, Room: [2]int{6, 6}, Boxes: 1, MaxActions: 3, ActionSep: ",",
		SolveDepth: 200, MaxTries: 10_000, Retry: RetryHash,
		RenderMode: Text, TileSize: 28, Shading: true, Edges: true,
		PromptFormat: "wm", Prompt: Full, UseExample: true, ImagePlaceholder: env.ImageMark,
		SuccessReward: 1, FormatReward: 0.1, MaxSteps: 100,
	}
	if r == Next {
		o.Rules, o.StrictFormat, o.Retry = Next, true, RetryLCG
		o.GroundingWeight, o.WorldModelingWeight = 0.006, 0.006
	}
	if r == Legacy {
		o.Rules, o.RenderMode, o.MinActions = Legacy, Vision, 5
		o.PromptFormat, o.FormatReward = "grounding_worldmodeling", 0.5
		o.SpecialTokens = []string{"<think>", "</think>", "<answer>", "</answer>"}
		o.GroundingWeight, o.WorldModelingWeight = 0.5, 0.5
	}
	return o
}

// FromConfig creates an environment from named options on top of the defaults of the
// rule set that the option "rules" names (Lite by default). It is an env.Factory.
func FromConfig(config map[string]any) (env.Env, error) {
	o, err := options.Read("sokoban", config, DefaultOptions)
	if err != nil {
		return nil, err
	}
	return New(o)
}

// Validate returns an error that lists all invalid options.
func (o *Options) Validate() error {
	f := options.Check("sokoban")
	f.OneOf("rules", string(o.Rules), string(Lite), string(Legacy), string(Next))
	f.OneOf("render_mode", o.RenderMode, Text, Vision)
	f.OneOf("prompt", o.Prompt, Full, Brief)
	f.OneOf("retry", string(o.Retry), string(RetryHash), string(RetryLCG))
	if formats := promptFormats(o.Rules); formats != nil {
		f.OneOf("prompt_format", o.PromptFormat, formats...)
	}
	if min(o.Room[0], o.Room[1]) < minSide || max(o.Room[0], o.Room[1]) > maxSide {
		f.Addf("dim_room", "%v has a side outside %d..%d", o.Room, minSide, maxSide)
	}
	options.Within(f, "num_boxes", o.Boxes, 1, maxBoxes)
	if s := o.MinSolution; s != nil && (s[0] < 0 || s[0] > s[1]) {
		f.Addf("min_solution_steps", "%v is not a range", *s)
	}
	if o.MinSolution != nil && o.Rules == Legacy {
		f.Addf("min_solution_steps", "the legacy rules accept every room")
	}
	options.Within(f, "tile_size", o.TileSize, minTile, maxTile)
	f.Positive("max_actions_per_step", o.MaxActions)
	f.Positive("reset_seed_max_tries", o.MaxTries)
	f.Positive("min_solution_bfs_max_depth", o.SolveDepth)
	options.Unread(f, string(o.Rules), *o, DefaultOptions(o.Rules))
	f.StateReward(o.UseStateReward, string(o.Rules), o.PromptFormat)
	if o.Rules != Next && o.StrictFormat {
		f.Addf("strict_format", "the %s rules have no such option; next have", o.Rules)
	}
	f.ActionSep(o.ActionSep)
	f.ImagePlaceholder(o.ImagePlaceholder)
	return f.Err()
}

// promptFormats returns the formats that have a prompt in this environment.
func promptFormats(r Rules) []string { return options.Formats(string(r), reward.Lite) }
