package navigation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"vagen/env/internal/scripts"
)

// Goal is the target of an agent.
type Goal struct {
	X, Z      float64
	Threshold float64
}

// Walker chooses an action. Walkers see the scene itself, not only the agent's
// observation.
type Walker func(r *rand.Rand, s *Scene, a Agent, g Goal) Action

// Random chooses all actions with equal probability.
func Random(r *rand.Rand, _ *Scene, _ Agent, _ Goal) Action { return Action(r.IntN(int(Actions))) }

// ShortestPath makes the next move of a shortest path to the goal, in any direction.
// Without a path it acts as Random.
func ShortestPath(r *rand.Rand, s *Scene, a Agent, g Goal) Action {
	h, ok := next(s, a, g)
	if !ok {
		return Random(r, s, a, g)
	}
	return a.towards(h)
}

// Facing follows a shortest path but only moves ahead: it turns first, so that the
// agent looks where it goes.
func Facing(r *rand.Rand, s *Scene, a Agent, g Goal) Action {
	h, ok := next(s, a, g)
	if !ok {
		return Random(r, s, a, g)
	}
	switch (h + 4 - a.Look) % 4 {
	case 0:
		return MoveAhead
	case 3:
		return TurnLeft
	}
	return TurnRight
}

func next(s *Scene, a Agent, g Goal) (Heading, bool) {
	x, z := a.Position()
	way, ok := s.Route(x, z, g.X, g.Z, a.step, g.Threshold)
	if !ok || len(way) == 0 {
		return 0, false
	}
	return way[0], true
}

// Beeline moves straight towards the goal along the longer of the two axes and ignores
// furniture. It is a baseline for an agent that perceives only the target.
func Beeline(_ *rand.Rand, _ *Scene, a Agent, g Goal) Action {
	x, z := a.Position()
	dx, dz := g.X-x, g.Z-z
	var h Heading
	switch {
	case math.Abs(dz) >= math.Abs(dx) && dz >= 0:
		h = 0
	case math.Abs(dz) >= math.Abs(dx):
		h = 2
	case dx > 0:
		h = 1
	default:
		h = 3
	}
	return a.towards(h)
}

// Noisy acts at random with probability eps, otherwise as w.
func Noisy(eps float64, w Walker) Walker {
	return func(r *rand.Rand, s *Scene, a Agent, g Goal) Action {
		if r.Float64() < eps {
			return Random(r, s, a, g)
		}
		return w(r, s, a, g)
	}
}

// Script writes the response with which a walker would play the current turn, with at
// most the given number of actions, in the environment's format. Its statements about
// the state before and after are true. The environment does not change. Script returns
// "" before Reset.
func (e *Env) Script(r *rand.Rand, w Walker, actions int) string {
	if e.scene == nil {
		return ""
	}
	goal := Goal{e.task.Target.X, e.task.Target.Z, e.o.SuccessThreshold}
	at := e.agent
	var list []string
	for range actions {
		a := w(r, e.scene, at, goal)
		at, _ = at.Do(e.scene, a)
		list = append(list, a.Word(e.o.Rules))
		if at.distance(goal.X, goal.Z) <= goal.Threshold {
			break
		}
	}
	say := func(at Agent, free bool) func() string {
		return func() string {
			if e.describing() {
				return e.describe(at, free)
			}
			return e.state(at).sentence()
		}
	}
	return scripts.Compose(e.Parser(), "do", list, e.o.ActionSep, say(e.agent, true), say(at, false))
}

// sentence describes the positions of the target and the visible objects.
func (s viewState) sentence() string {
	var b strings.Builder
	where := func(name, direction string, away float64) {
		switch direction {
		case toLeft, toRight:
			fmt.Fprintf(&b, "The %s is to the %s, %.2f m away. ", name, direction, away)
		case toBack:
			fmt.Fprintf(&b, "The %s is behind, %.2f m away. ", name, away)
		default:
			fmt.Fprintf(&b, "The %s is ahead, %.2f m away. ", name, away)
		}
	}
	where(Spoken(s.TargetType), s.Direction, s.Distance)
	for _, v := range s.Visible {
		if v.Type != s.TargetType {
			where(Spoken(v.Type), v.Direction, v.Distance)
		}
	}
	return strings.TrimSpace(b.String())
}
