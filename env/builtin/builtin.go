// Package builtin lists the environments that come with the library.
package builtin

import (
	"fmt"

	"vagen/env"
	"vagen/env/blackjack"
	"vagen/env/frozenlake"
	"vagen/env/navigation"
	"vagen/env/primitiveskill"
	"vagen/env/remote"
	"vagen/env/sokoban"
	"vagen/env/svg"
	"vagen/reward/judge"
)

// Kind is an environment of the library.
type Kind struct {
	Name  string
	About string   // what the agent does there
	Rules []string // values of the option "rules", the default first; nil without that option
	Make  env.Factory
	// Defaults returns the struct of options under one of Rules, for
	// env.OptionValues. Nil where a service defines the options.
	Defaults func(rules string) any
}

// Kinds returns all environments of the library, by name.
func Kinds() []Kind {
	systems := []string{"lite", "legacy"}
	return []Kind{
		{"blackjack", "draw cards or stand against a dealer", nil,
			blackjack.FromConfig, func(string) any { return blackjack.Defaults() }},
		{"frozenlake", "walk over a lake to the goal, around its holes", systems,
			frozenlake.FromConfig, func(r string) any { return frozenlake.Defaults(frozenlake.Rules(r)) }},
		{"navigation", "walk to an object in a generated room, seen from inside", systems,
			navigation.FromConfig, func(r string) any { return navigation.Defaults(navigation.Rules(r)) }},
		{"primitive_skill", "arrange things on a table with the skills of a robot arm", systems,
			primitiveskill.FromConfig, func(r string) any { return primitiveskill.Defaults(primitiveskill.Rules(r)) }},
		{"remote", "whatever a service hosts that the option base_urls names", nil, remote.FromConfig, nil},
		{"remote_legacy", "the same over the legacy protocol; env_name says which environment", nil, remote.LegacyFromConfig, nil},
		{"sokoban", "push all boxes onto their targets", systems,
			sokoban.FromConfig, func(r string) any { return sokoban.Defaults(sokoban.Rules(r)) }},
		{"svg", "write SVG code that draws a given picture", []string{"episode", "service"},
			svg.FromConfig, func(string) any { return svg.Defaults() }},
	}
}

// Registry returns a new registry of Kinds. The caller may add its own. Claims of
// environments with the option use_state_reward are judged by rules, see
// judge.Rules; SetJudge changes that.
func Registry() *env.Registry {
	r := new(env.Registry)
	for _, k := range Kinds() {
		if err := r.Register(k.Name, k.Make); err != nil {
			panic(fmt.Sprintf("builtin: %v", err)) // names are unique, see the tests
		}
	}
	r.SetJudge(new(judge.Rules))
	return r
}
