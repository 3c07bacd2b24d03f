package frozenlake

import (
	"vagen/env"
	"vagen/env/internal/options"
	"vagen/env/internal/prompts"
)

// Options are an environment's settings; DefaultOptions returns the published ones. The
// tags are their names in configurations.
//
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
type Options struct {
	options.Level

	Size     int     `option:"size"`          // rows and columns, 2..64
	P        float64 `option:"p" range:"0,1"` // probability of a frozen cell
	MapSeed  *int64  `option:"map_seed"`      // draws one map for all episodes; seeds then decide slips alone
	Slippery bool    `option:"is_slippery"`
	SlipProb float64 `option:"slip_prob" range:"0,1"` // probability that a move goes to one of its sides; lite only

	Cracks        bool    `option:"cracks"`         // cells show at their edges where holes and the shore are
	DescribeHoles bool    `option:"describe_holes"` // observations say the neighbour cells, too
	HolePenalty   float64 `option:"hole_penalty"`   // subtracted on the turn that ends in a hole

	// ProgressReward is paid for each move that the turn came nearer to the goal on a way around the holes, and
	// subtracted for each that it went away: shaping by a potential (Ng, Harada and Russell 1999), which leaves the best
	// policy as it is. A turn that ends where no way leads to the goal gets none.
	ProgressReward float64 `option:"progress_reward"`

	// MinActions has no effect, as in the original.
	MinActions int `option:"min_actions_to_succeed" unread:"no rule of this environment reads it, as in the original"`
}

// DefaultOptions returns the published settings of a rule set, with pictures of 28
// pixels a cell. For an unknown rule set it returns those of Lite.
func DefaultOptions(r env.Rules) Options {
	o := Options{Level: options.DefaultLevel(r), Size: 4, P: 0.8, Cracks: true}
	if o.Rules == env.Legacy {
		o.MaxActions, o.MinActions = 3, 5
	} else {
		o.MaxActions, o.PromptFormat, o.FormatReward = 5, "free_think", 0.02
	}
	return o
}

// FromConfig creates an environment from named options on top of the defaults of the
// rule set that the option "rules" names (Lite by default). It is an env.Factory.
func FromConfig(config map[string]any) (env.Env, error) {
	return options.Make("frozenlake", config, DefaultOptions, New)
}

// Validate returns an error that lists all invalid options.
func (o *Options) Validate() error {
	c := options.Check("frozenlake", o)
	options.CheckLevel(c, &o.Level)
	options.CheckEnvName(c, o.EnvName, "frozenlake")
	prompts.Load(c, &o.Response, placeholders)
	if o.MapSeed != nil && *o.MapSeed < 0 {
		c.Bad("map_seed", "%d, must not be negative", *o.MapSeed)
	}
	if d := DefaultOptions(o.Rules); len(o.Desc) == 0 {
		c.Within("size", float64(o.Size), minSize, maxSize)
	} else if o.MapSeed != nil || o.Size != d.Size || o.P != d.P {
		c.Bad("desc", "%q gives the map, but size, p or map_seed is set; leave them out", o.Desc)
	}
	if o.Rules == env.Legacy && o.SlipProb != 0 {
		c.Bad("slip_prob", "%v, but the legacy rules have is_slippery only", o.SlipProb)
	}
	options.Unread(c, o.Rules, *o, DefaultOptions(o.Rules))
	return c.Err()
}
