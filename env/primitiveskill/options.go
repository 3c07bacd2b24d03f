package primitiveskill

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
	// Rules selects the other defaults and the behaviour in the table below. The potential
	// is 10 at success; before that only AlignTwoCube has one: 2 if the red cube is
	// correctly placed, 4 if the green one is.
	//
	//	                  lite                              legacy
	//	"format" pays if  format correct and all actions valid, in both
	//	"stage" pays      the change of the potential       see EachTurn
	//	"success" pays    SuccessReward                     nothing
	//	"skills" pays     nothing                           −0.1 for each, see EachTurn
	//
	// Next is Lite with the formats of August 2026: the format must match the whole
	// response, and responses with too many actions are malformed.
	Rules Rules `option:"rules" kind:"text"`

	Task       string `option:"env_id" kind:"text"` // one of Tasks
	MaxSteps   int    `option:"max_steps"`
	MaxActions int    `option:"max_actions_per_step"`
	ActionSep  string `option:"action_sep" kind:"text"`

	RenderMode       string   `option:"render_mode" kind:"text"`
	Resolution       int      `option:"resolution"`                // pixels of the picture's side, 64..1024; the original's is 300
	MaskSuccess      bool     `option:"mask_success"`              // hides from observations how far the task is done
	PromptFormat     string   `option:"prompt_format" kind:"text"` // a format of the rule set, see package reward
	ImagePlaceholder string   `option:"image_placeholder" kind:"text"`
	SpecialTokens    []string `option:"special_token_list" kind:"text" rules:"legacy"` // removed from sections

	FormatReward  float64 `option:"format_reward"`
	SuccessReward float64 `option:"success_reward" rules:"lite next"`

	// EachTurn distributes the legacy environment's reward at the end of an episode,
	//
	//	potential − potential at the start − 0.1·skills
	//
	// over the turns, in parts whose sum is correct whenever the episode is stopped.
	// Without it the turns do not include this reward; FinalReward returns it. Legacy only.
	EachTurn bool `option:"progress_each_turn" rules:"legacy"`

	// UseStateReward attaches claims for a judge to the outcomes of turns whose
	// format is rewarded; the weights are those of a perfect claim. Not lite.
	UseStateReward      bool    `option:"use_state_reward"`
	GroundingWeight     float64 `option:"grounding_reward_weight"`
	WorldModelingWeight float64 `option:"worldmodeling_reward_weight"`

	// EnvName is "primitive_skill" or "". The others are read by no rule; old
	// configurations have them.
	EnvName     string `option:"env_name" kind:"text"`
	RecordVideo bool   `option:"record_video" unread:"no videos are recorded"`
	VideoDir    string `option:"video_record_dir" kind:"path" noted:"it belongs to record_video, which is off"`
	GPUDevice   int    `option:"gpu_device" unread:"pictures are drawn without a GPU"`
}

// DefaultOptions returns the published settings of a rule set, and those of Lite for an
// unknown one.
func DefaultOptions(r Rules) Options {
	o := Options{
		Rules: Lite, Task: AlignTwoCube, MaxSteps: 10, MaxActions: 2, ActionSep: "|", RenderMode: Vision, Resolution: 300, MaskSuccess: true,
		PromptFormat: "wm", ImagePlaceholder: env.ImageMark, FormatReward: 0.1, SuccessReward: 10,
		GroundingWeight: 0.5, WorldModelingWeight: 0.5,
	}
	if r == Next {
		o.Rules, o.GroundingWeight, o.WorldModelingWeight = Next, 0.006, 0.006
	}
	if r == Legacy {
		o.Rules, o.PromptFormat, o.FormatReward, o.SuccessReward, o.EachTurn = Legacy, "grounding_worldmodeling", 0.5, 0, true
		o.SpecialTokens = []string{"<think>", "</think>", "<answer>", "</answer>"}
	}
	return o
}

// FromConfig creates an environment from named options on top of the defaults of the
// rule set that the option "rules" names (Lite by default). It is an
// env.Factory.
func FromConfig(config map[string]any) (env.Env, error) {
	o, err := options.Read("primitiveskill", config, DefaultOptions)
	if err != nil {
		return nil, err
	}
	return New(o)
}

// Validate returns an error that lists all invalid options.
func (o *Options) Validate() error {
	f := options.Check("primitiveskill")
	f.ActionSep(o.ActionSep)
	f.OneOf("env_id", o.Task, Tasks()...)
	f.Finite("format_reward", o.FormatReward)
	f.ImagePlaceholder(o.ImagePlaceholder)
	f.Positive("max_actions_per_step", o.MaxActions)
	f.Positive("max_steps", o.MaxSteps)
	if formats := promptFormats(o.Rules); formats != nil {
		f.OneOf("prompt_format", o.PromptFormat, formats...)
	}
	f.OneOf("render_mode", o.RenderMode, Text, Vision)
	options.Within(f, "resolution", o.Resolution, 64, 1024)
	f.OneOf("rules", string(o.Rules), string(Lite), string(Legacy), string(Next))
	f.Finite("success_reward", o.SuccessReward)
	f.EnvName(o.EnvName, "primitive_skill")
	options.Unread(f, string(o.Rules), *o, DefaultOptions(o.Rules))
	f.StateReward(o.UseStateReward, string(o.Rules), o.PromptFormat)
	return f.Err()
}

// promptFormats returns the formats that have a prompt in this environment.
func promptFormats(r Rules) []string {
	return options.Formats(string(r), reward.LitePrimitiveSkill, "_symbolic")
}
