// Package scripts has tables of an environment's scripted players, for env.Teacher.
package scripts

import (
	"fmt"
	"strings"

	"vagen/env"
)

// Table lists scripted players in the order in which they are documented.
type Table[T any] []Script[T]

// Script is a scripted player with the name by which configurations select it.
type Script[T any] struct {
	Name   string
	Player T
}

// Names lists the names of the scripts.
func (t Table[T]) Names() []string {
	var names []string
	for _, s := range t {
		names = append(names, s.Name)
	}
	return names
}

// Find returns the player of a name. The error, which names the environment, wraps env.ErrScript.
func (t Table[T]) Find(environment, name string) (T, error) {
	for _, s := range t {
		if s.Name == name {
			return s.Player, nil
		}
	}
	var none T
	return none, fmt.Errorf("%s: teacher: %w: %q, must be one of %s",
		environment, env.ErrScript, name, strings.Join(t.Names(), ", "))
}
