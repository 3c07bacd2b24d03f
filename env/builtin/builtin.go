// Package builtin lists the environments that come with the library.
package builtin

import (
	"fmt"

	"vagen/env"
	"vagen/env/blackjack"
	"vagen/env/frozenlake"
	"vagen/env/navigation"
	"vagen/env/primitiveskill"
	"vagen/env/sokoban"
	"vagen/env/svg"
	"vagen/reward/judge"
)

// Registry returns a new registry of all environments of the library:
//
//	blackjack        Blackjack
//	frozenlake       FrozenLake; the option "rules" chooses lite (default) or legacy
//	navigation       walking to objects in generated rooms; likewise
//	primitive_skill  skills of a robot arm over a table; likewise
//	sokoban          Sokoban; likewise
//	svg              redrawing pictures; "rules" chooses episode (default) or service
//
// The caller may add its own. Claims of environments with the option
// use_state_reward are judged by rules, see judge.Rules; SetJudge changes that.
func Registry() *env.Registry {
	r := new(env.Registry)
	for name, f := range map[string]env.Factory{
		"blackjack":       blackjack.FromConfig,
		"frozenlake":      frozenlake.FromConfig,
		"navigation":      navigation.FromConfig,
		"primitive_skill": primitiveskill.FromConfig,
		"sokoban":         sokoban.FromConfig,
		"svg":             svg.FromConfig,
	} {
		if err := r.Register(name, f); err != nil {
			panic(fmt.Sprintf("builtin: %v", err)) // names of a map are unique
		}
	}
	r.SetJudge(new(judge.Rules))
	return r
}
