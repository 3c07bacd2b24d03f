package frozenlake

import (
	"math/rand/v2"

	"vagen/env"
	"vagen/env/internal/scripts"
)

var _ env.Teacher = (*Env)(nil)

// table has the walkers that a configuration can name.
var table = scripts.Table[Walker]{
	{Name: "shortest_path", Player: ShortestPath}, {Name: "hole_shy", Player: holeShy},
	{Name: "hole_blind", Player: HoleBlind}, {Name: "random", Player: Random},
}

// Scripts implements env.Teacher: shortest_path, hole_shy, hole_blind and random.
func (e *Env) Scripts() []string { return table.Names() }

// Teach implements env.Teacher with Script. A response has as many moves as the options
// allow, fewer if they end the episode.
func (e *Env) Teach(script string, noise float64, r *rand.Rand) (string, error) {
	w, err := table.Find("frozenlake", script)
	if err != nil {
		return "", err
	}
	return e.Script(r, Noisy(noise, w), e.o.MaxActions), nil
}
