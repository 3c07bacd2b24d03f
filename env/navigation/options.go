package navigation

import (
	"fmt"

	"vagen/env"
	"vagen/env/internal/options"
	"vagen/env/internal/prompts"
	"vagen/reward"
)

// Options are an environment's settings; DefaultOptions returns the published ones. The tags
// are their names in configurations.
//
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
type Options struct {
	options.Ruled
	options.Described

	// EvalSet is one of EvalSets, or the name without .json of a file in TaskDir.
	// TaskDir may also be a file itself; "" means the built-in sets.
	EvalSet    string  `option:"eval_set" kind:"text"`
	TaskDir    string  `option:"task_dir" kind:"path"`
	DownSample float64 `option:"down_sample_ratio" range:"1e-06,1"` // below 1: every round(1/ratio)-th task
	// Targets restricts the tasks of the built-in sets to targets of these types, such as
	// Fridge; a room that has none at a suitable place is replaced. Empty allows all.
	Targets []string `option:"targets" kind:"text"`

	Resolution       int     `option:"resolution" range:"32,1024"`      // pixels of the picture's side
	FOV              float64 `option:"fov" range:"20,150"`              // degrees from edge to edge
	StepLength       float64 `option:"step_length" range:"0.01,5"`      // metres
	SuccessThreshold float64 `option:"success_threshold" range:"0,100"` // metres
	MaxSteps         int     `option:"max_steps" range:"1,1e+06"`       // actions, without the successful one
	ExampleCount     int     `option:"example_count" range:"0,1"`       // examples in the system prompt
	PerTurnFormat    float64 `option:"per_turn_format_reward" rules:"lite next"`
	MaxObjects       int     `option:"max_objects_in_state" range:"0,1000"`

	// EnvName is "navigation" or "". The others are read by no rule; old
	// configurations have them, and values but the defaults are refused.
	EnvName          string  `option:"env_name" kind:"text"`
	Multiview        bool    `option:"multiview" unread:"there is one view, from the agent's eyes"`
	GPUDevice        int     `option:"gpu_device" unread:"pictures are drawn without a GPU"`
	MaxActionPenalty float64 `option:"max_action_penalty" unread:"no rule reads it, as in the original"`
}

// DefaultOptions returns the published settings of a rule set, and those of Lite for an
// unknown one.
func DefaultOptions(r env.Rules) Options {
	o := Options{
		Ruled: options.DefaultRuled(r), Described: options.DefaultDescribed(), EvalSet: "base", DownSample: 1,
		Resolution: 255, FOV: 100, StepLength: 0.3, SuccessThreshold: 1,
		MaxSteps: 30, PerTurnFormat: 0.01, MaxObjects: 5,
	}
	o.MaxActions, o.ActionSep = 5, "|"
	if o.Rules != env.Legacy {
		o.PromptFormat = "free_think"
		return o
	}
	o.StepLength, o.SuccessThreshold, o.ActionSep = 0.5, 1.5, ","
	o.PerTurnFormat, o.ExampleCount, o.MaxActionPenalty = 0, 1, -0.1
	return o
}

// FromConfig creates an environment from named options on top of the defaults of the
// rule set that the option "rules" names (Lite by default). It is an
// env.Factory.
func FromConfig(config map[string]any) (env.Env, error) {
	return options.Make("navigation", config, DefaultOptions, New)
}

// Validate returns an error that lists all invalid options.
func (o *Options) Validate() error {
	c := options.Check("navigation", o)
	options.CheckRuled(c, &o.Ruled, options.Formats(o.Rules, reward.LiteNavigation, "_symbolic", "_structured"))
	prompts.Load(c, &o.Response, placeholders)
	options.CheckDescribed(c, &o.Described, &o.Ruled, reward.LiteNavigation)
	for i, name := range o.Targets {
		c.OneOf(fmt.Sprintf("targets[%d]", i), name, targetTypes()...)
	}
	if len(o.Targets) > 0 && o.TaskDir != "" {
		c.Bad("targets", "%q, but the tasks are those of task_dir %q; leave one of them out", o.Targets, o.TaskDir)
	}
	if o.TaskDir == "" {
		c.OneOf("eval_set", o.EvalSet, EvalSets()...)
	}
	options.CheckEnvName(c, o.EnvName, "navigation")
	options.Unread(c, o.Rules, *o, DefaultOptions(o.Rules))
	return c.Err()
}
