package sokoban

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
//	action words          any case                    Up, Down, Left, Right
//	"success" pays        SuccessReward               10
//	other pay             none                        "move" −0.1 for each move, "box" ±1
//	                                                  when a box gets on or off a target
//	"format" pays if      at least one action valid   every action valid
//	format instructions   in the system prompt        after every observation, too
//
// Next is Lite with the formats of August 2026: the whole response must have the
// shape, and answers of too many actions are malformed. Success pays once, and
// Retry is RetryLCG.
type Options struct {
	options.Level

	Room  [2]int `option:"dim_room"` // rows and columns, walls included, 3..32 each
	Boxes int    `option:"num_boxes" range:"1,9"`

	// MinSolution accepts only rooms whose shortest solution has a number of
	// moves in this range, searched up to SolveDepth moves; a room without one
	// counts as 0. Nil accepts all. Lite only.
	MinSolution *[2]int `option:"min_solution_steps"`
	SolveDepth  int     `option:"min_solution_bfs_max_depth" rules:"lite next" count:"positive"`
	MaxTries    int     `option:"reset_seed_max_tries" count:"positive"` // seeds tried at each Reset
	// HeldOut reserves rooms for the seeds below it: about an eighth of all rooms, by their
	// content, are for these seeds, which get no others. Small rooms of different seeds are
	// often equal; training on seeds from HeldOut on shares no room with validation on those
	// below. 0 reserves none.
	HeldOut int `option:"held_out"`
	// Retry chooses the next seed after one that gave no accepted room.
	Retry RetryRule `option:"retry" kind:"text" oneof:"hash lcg"`

	Edges         bool `option:"edges"`          // free cells show at their edges where walls and boxes are
	DescribeMoves bool `option:"describe_moves"` // observations say the neighbour cells, too

	// MaxSteps never ends an episode, as in the original. MinActions is used when the seeds
	// of a data set are selected, see package dataset.
	MaxSteps   int `option:"max_steps" noted:"it ends no episode, as in the original"`
	MinActions int `option:"min_actions_to_succeed" noted:"package dataset reads it where it chooses seeds"`
}

// DefaultOptions returns the published settings of a rule set, with pictures of 28
// pixels a cell. For an unknown rule set it returns those of Lite.
func DefaultOptions(r env.Rules) Options {
	o := Options{
		Level: options.DefaultLevel(r), Room: [2]int{6, 6}, Boxes: 1, Edges: true,
		SolveDepth: 200, MaxTries: 10_000, Retry: RetryHash, MaxSteps: 100,
	}
	o.MaxActions = 3
	switch o.Rules {
	case env.Legacy:
		o.MinActions = 5
		return o
	case env.Next:
		o.Retry = RetryLCG
	}
	o.PromptFormat, o.FormatReward = "wm", 0.1
	return o
}

// FromConfig creates an environment from named options on top of the defaults of the
// rule set that the option "rules" names (Lite by default). It is an env.Factory.
func FromConfig(config map[string]any) (env.Env, error) {
	return options.Make("sokoban", config, DefaultOptions, New)
}

// Validate returns an error that lists all invalid options.
func (o *Options) Validate() error {
	c := options.Check("sokoban", o)
	options.CheckLevel(c, &o.Level)
	options.CheckEnvName(c, o.EnvName, "sokoban")
	prompts.Load(c, &o.Response, placeholders)
	if min(o.Room[0], o.Room[1]) < minSide || max(o.Room[0], o.Room[1]) > maxSide {
		c.Bad("dim_room", "%v, both must be in [%d, %d]", o.Room, minSide, maxSide)
	}
	if s := o.MinSolution; s != nil && (s[0] < 0 || s[0] > s[1]) {
		c.Bad("min_solution_steps", "%v, must be a range", *s)
	}
	if o.MinSolution != nil && o.Rules == env.Legacy {
		c.Bad("min_solution_steps", "%v, but the legacy rules accept every room", *o.MinSolution)
	}
	if o.HeldOut < 0 {
		c.Bad("held_out", "%d, must be 0 or more", o.HeldOut)
	}
	if d := DefaultOptions(o.Rules); len(o.Desc) > 0 &&
		(o.HeldOut > 0 || o.MinSolution != nil || o.Room != d.Room || o.Boxes != d.Boxes) {
		c.Bad("desc", "%q is the room of all seeds, but held_out, dim_room, num_boxes or min_solution_steps is set; "+
			"leave them out", o.Desc)
	}
	options.Unread(c, o.Rules, *o, DefaultOptions(o.Rules))
	return c.Err()
}
