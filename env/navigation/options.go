package navigation

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

// Modes of rendering.
const (
	Text   = "text"
	Vision = "vision"
)

// Options are an environment's settings; DefaultOptions returns the published ones. The tags
// are their names in configurations.
type Options struct {
	// Rules selects the other defaults and the behaviour in the table below.
	//
	//	                      lite                          legacy
	//	action words          move_forward, move_backward,  moveahead, moveback,
	//	                      move_right, move_left,        moveright, moveleft,
	//	                      turn_right, turn_left,        rotateright, rotateleft,
	//	                      look_up, look_down            lookup, lookdown
	//	"success" pays        SuccessReward                 10
	//	"format" pays         PerTurnFormat if format       FormatReward if format
	//	                      correct and at least one      correct and every action
	//	                      action valid                  known
	//	"all_formats" pays    FormatReward at success, if   nothing
	//	                      every turn's was correct
	//	format instructions   in the system prompt and the  after every observation,
	//	                      first observation             too
	//
	// Next is Lite with the formats of August 2026: the format must match the whole
	// response, and responses with too many actions are malformed.
	Rules Rules `option:"rules" kind:"text"`

	// EvalSet is one of EvalSets, or the name without .json of a file in TaskDir.
	// TaskDir may also be a file itself; "" means the built-in sets.
	EvalSet    string  `option:"eval_set" kind:"text"`
	TaskDir    string  `option:"task_dir" kind:"path"`
	DownSample float64 `option:"down_sample_ratio"` // below 1: every round(1/ratio)-th task

	Resolution       int     `option:"resolution"`        // pixels of the picture's side, 32..1024
	FOV              float64 `option:"fov"`               // degrees from edge to edge, 20..150
	StepLength       float64 `option:"step_length"`       // metres
	SuccessThreshold float64 `option:"success_threshold"` // metres
	MaxSteps         int     `option:"max_steps"`         // actions of an episode; the successful one isn't counted
	MaxActions       int     `option:"max_actions_per_step"`
	ActionSep        string  `option:"action_sep" kind:"text"`

	RenderMode       string   `option:"render_mode" kind:"text"`   // Vision, or Text: the state in words, which is this package's own
	PromptFormat     string   `option:"prompt_format" kind:"text"` // a format of the rule set, see package reward
	ExampleCount     int      `option:"example_count"`             // examples in the system prompt, 0 or 1
	ImagePlaceholder string   `option:"image_placeholder" kind:"text"`
	SpecialTokens    []string `option:"special_token_list" kind:"text" rules:"legacy"` // removed from sections

	SuccessReward float64 `option:"success_reward" rules:"lite next"`
	FormatReward  float64 `option:"format_reward"`
	PerTurnFormat float64 `option:"per_turn_format_reward" rules:"lite next"`

	// UseStateReward attaches claims for a judge to the outcomes of turns whose
	// format is rewarded; the weights are those of a perfect claim. Not lite.
	UseStateReward      bool    `option:"use_state_reward"`
	MaxObjects          int     `option:"max_objects_in_state"`
	GroundingWeight     float64 `option:"grounding_reward_weight"`
	WorldModelingWeight float64 `option:"worldmodeling_reward_weight"`

	// EnvName is "navigation" or "". The others are read by no rule; old
	// configurations have them, and values but the defaults are refused.
	EnvName          string  `option:"env_name" kind:"text"`
	Multiview        bool    `option:"multiview" unread:"there is one view, from the agent's eyes"`
	GPUDevice        int     `option:"gpu_device" unread:"pictures are drawn without a GPU"`
	MaxActionPenalty float64 `option:"max_action_penalty" unread:"no rule reads it, as in the original"`
}

// DefaultOptions returns the published settings of a rule set, and those of Lite for an
// unknown one.
func DefaultOptions(r Rules) Options {
	o := Options{
		Rules: Lite, EvalSet: "base", DownSample: 1, Resolution: 255, FOV: 100, StepLength: 0.3, SuccessThreshold: 1,
		MaxSteps: 30, MaxActions: 5, ActionSep: "|", RenderMode: Vision, PromptFormat: "free_think", ImagePlaceholder: env.ImageMark,
		SuccessReward: 1, PerTurnFormat: 0.01, MaxObjects: 5,
	}
	if r == Next {
		o.Rules, o.GroundingWeight, o.WorldModelingWeight = Next, 0.006, 0.006
	}
	if r == Legacy {
		o.Rules, o.StepLength, o.SuccessThreshold, o.ActionSep = Legacy, 0.5, 1.5, ","
		o.PromptFormat, o.FormatReward, o.PerTurnFormat, o.ExampleCount = "grounding_worldmodeling", 0.5, 0, 1
		o.SpecialTokens = []string{"<think>", "</think>", "<answer>", "</answer>"}
		o.GroundingWeight, o.WorldModelingWeight, o.MaxActionPenalty = 0.5, 0.5, -0.1
	}
	return o
}

// FromConfig creates an environment from named options on top of the defaults of the
// rule set that the option "rules" names (Lite by default). It is an
// env.Factory.
func FromConfig(config map[string]any) (env.Env, error) {
	o, err := options.Read("navigation", config, DefaultOptions)
	if err != nil {
		return nil, err
	}
	return New(o)
}

// Validate returns an error that lists all invalid options.
func (o *Options) Validate() error {
	f := options.Check("navigation")
	f.ActionSep(o.ActionSep)
	options.Within(f, "down_sample_ratio", o.DownSample, 1e-6, 1)
	if o.TaskDir == "" {
		f.OneOf("eval_set", o.EvalSet, EvalSets()...)
	}
	options.Within(f, "example_count", float64(o.ExampleCount), 0, 1)
	f.Finite("format_reward", o.FormatReward)
	options.Within(f, "fov", o.FOV, 20, 150)
	f.ImagePlaceholder(o.ImagePlaceholder)
	f.Positive("max_actions_per_step", o.MaxActions)
	options.Within(f, "max_objects_in_state", float64(o.MaxObjects), 0, 1000)
	options.Within(f, "max_steps", float64(o.MaxSteps), 1, 1e6)
	f.Finite("per_turn_format_reward", o.PerTurnFormat)
	if formats := promptFormats(o.Rules); formats != nil {
		f.OneOf("prompt_format", o.PromptFormat, formats...)
	}
	f.OneOf("render_mode", o.RenderMode, Text, Vision)
	options.Within(f, "resolution", float64(o.Resolution), 32, 1024)
	f.OneOf("rules", string(o.Rules), string(Lite), string(Legacy), string(Next))
	options.Within(f, "step_length", o.StepLength, 0.01, 5)
	f.Finite("success_reward", o.SuccessReward)
	options.Within(f, "success_threshold", o.SuccessThreshold, 0, 100)
	f.EnvName(o.EnvName, "navigation")
	options.Unread(f, string(o.Rules), *o, DefaultOptions(o.Rules))
	f.StateReward(o.UseStateReward, string(o.Rules), o.PromptFormat)
	return f.Err()
}

// promptFormats returns the formats that have a prompt in this environment.
func promptFormats(r Rules) []string {
	return options.Formats(string(r), reward.LiteNavigation, "_symbolic", "_structured")
}
