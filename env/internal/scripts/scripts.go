// Package scripts has tables of an environment's scripted players, for env.Teacher.
package scripts

import (
	"fmt"
	"strings"

	"vagen/env"
	"vagen/reward"
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

// Compose writes a response in a parser's format that executes actions. before and after say the state before and
// after them, and verb is what its thoughts call to execute.
func Compose(p *reward.Parser, verb string, actions []string, sep string, before, after func() string) string {
	return p.Compose(func(section string) string {
		switch section {
		case reward.SectionObservation:
			return before()
		case reward.SectionPrediction:
			return after()
		case reward.SectionAnswer:
			return strings.Join(actions, sep)
		}
		return "I " + verb + " " + strings.Join(actions, ", ") + "."
	})
}
