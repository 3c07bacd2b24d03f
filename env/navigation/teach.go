package navigation

import (
	"math/rand/v2"

	"vagen/env"
	"vagen/env/internal/scripts"
)

var _ env.Teacher = (*Env)(nil)

// table has the walkers that a configuration can name.
var table = scripts.Table[Walker]{
	{Name: "shortest_path", Player: ShortestPath}, {Name: "facing", Player: Facing},
	{Name: "beeline", Player: Beeline}, {Name: "random", Player: Random},
}

// Scripts implements env.Teacher: shortest_path, facing, beeline and random.
func (e *Env) Scripts() []string { return table.Names() }

// Teach implements env.Teacher with Script. A response has as many actions as the options
// allow, fewer if they reach the target.
func (e *Env) Teach(script string, noise float64, r *rand.Rand) (string, error) {
	w, err := table.Find("navigation", script)
	if err != nil {
		return "", err
	}
	return e.Script(r, Noisy(noise, w), e.o.MaxActions), nil
}
