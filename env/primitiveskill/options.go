package primitiveskill

import (
	"vagen/env"
	"vagen/env/internal/options"
	"vagen/env/internal/prompts"
	"vagen/reward"
)

// Options are an environment's settings; DefaultOptions returns the published ones. The tags
// are their names in configurations.
//
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
type Options struct {
	options.Ruled

	Task        string `option:"env_id" kind:"text"` // one of Tasks
	MaxSteps    int    `option:"max_steps" count:"positive"`
	Resolution  int    `option:"resolution" range:"64,1024"` // pixels of the picture's side; the original's is 300
	MaskSuccess bool   `option:"mask_success"`               // hides from observations how far the task is done

	// EachTurn distributes the legacy environment's reward at the end of an episode,
	//
	//	potential − potential at the start − 0.1·skills
	//
	// over the turns, in parts whose sum is correct whenever the episode is stopped.
	// Without it the turns do not include this reward; FinalReward returns it. Legacy only.
	EachTurn bool `option:"progress_each_turn" rules:"legacy"`

	// EnvName is "primitive_skill" or "". The others are read by no rule; old
	// configurations have them.
	EnvName     string `option:"env_name" kind:"text"`
	RecordVideo bool   `option:"record_video" unread:"no videos are recorded"`
	VideoDir    string `option:"video_record_dir" kind:"path" noted:"it belongs to record_video, which is off"`
	GPUDevice   int    `option:"gpu_device" unread:"pictures are drawn without a GPU"`
}

// DefaultOptions returns the published settings of a rule set, and those of Lite for an
// unknown one.
func DefaultOptions(r env.Rules) Options {
	o := Options{Ruled: options.DefaultRuled(r), Task: AlignTwoCube, MaxSteps: 10, Resolution: 300, MaskSuccess: true}
	o.MaxActions, o.ActionSep = 2, "|"
	if o.Rules == env.Legacy {
		o.SuccessReward, o.EachTurn = 0, true
		return o
	}
	o.PromptFormat, o.FormatReward, o.SuccessReward = "wm", 0.1, 10
	if o.Rules == env.Lite {
		o.GroundingWeight, o.WorldModelingWeight = 0.5, 0.5
	}
	return o
}

// FromConfig creates an environment from named options on top of the defaults of the
// rule set that the option "rules" names (Lite by default). It is an
// env.Factory.
func FromConfig(config map[string]any) (env.Env, error) {
	return options.Make("primitiveskill", config, DefaultOptions, New)
}

// Validate returns an error that lists all invalid options.
func (o *Options) Validate() error {
	c := options.Check("primitiveskill", o)
	options.CheckRuled(c, &o.Ruled, options.Formats(o.Rules, reward.LitePrimitiveSkill, "_symbolic"))
	prompts.Load(c, &o.Response, placeholders)
	c.OneOf("env_id", o.Task, Tasks()...)
	options.CheckEnvName(c, o.EnvName, "primitive_skill")
	options.Unread(c, o.Rules, *o, DefaultOptions(o.Rules))
	return c.Err()
}
