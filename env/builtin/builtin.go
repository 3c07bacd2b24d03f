// Package builtin lists the environments that come with the library.
package builtin

import (
	"fmt"

	"vagen/env"
	"vagen/env/blackjack"
	"vagen/env/frozenlake"
	"vagen/env/sokoban"
)

// Registry returns a new registry of all environments of the library:
//
//	blackjack    Blackjack
//	frozenlake   FrozenLake; the option "rules" chooses lite (default) or legacy
//	sokoban      Sokoban; likewise
//
// The caller may add its own.
func Registry() *env.Registry {
	r := new(env.Registry)
	for name, f := range map[string]env.Factory{
		"blackjack":  blackjack.FromConfig,
		"frozenlake": frozenlake.FromConfig,
		"sokoban":    sokoban.FromConfig,
	} {
		if err := r.Register(name, f); err != nil {
			panic(fmt.Sprintf("builtin: %v", err)) // names of a map are unique
		}
	}
	return r
}
