package primitiveskill

import (
	"context"
	"math"

	"vagen/env"
	"vagen/env/internal/snapshot"
	"vagen/env/internal/turns"
	"vagen/internal/rng"
)

var _ env.Snapshotter = (*Env)(nil)

// saved is the state of an episode. Between two calls the arm is at home.
type saved struct {
	Bodies []savedBody // in the task's order
	Held   int
	Open   float64 // of the drawer; 0 without one
	First  float64
	Skills int
	turns.Past
}

// savedBody is what changes of a body.
type savedBody struct {
	At  Point
	Yaw float64
}

// Snapshot implements env.Snapshotter.
func (e *Env) Snapshot() ([]byte, error) {
	if err := e.Calls.Snapshot(e.world != nil); err != nil {
		return nil, err
	}
	s := saved{Held: e.world.held, First: e.first, Skills: e.skills, Past: turns.PastOf(&e.Base)}
	for _, b := range e.world.bodies {
		s.Bodies = append(s.Bodies, savedBody{b.at, b.yaw})
	}
	if e.world.drawer != nil {
		s.Open = e.world.drawer.open
	}
	return snapshot.Encode("primitive_skill", e.o, s)
}

// farthest bounds a body's coordinates in metres. Nothing gets this far.
const farthest = 10

// Restore implements env.Snapshotter.
func (e *Env) Restore(ctx context.Context, state []byte) error {
	var s saved
	return turns.Load(ctx, &e.Base, "primitive_skill", e.o, state, &s, func() error {
		w := e.task.start(rng.New(0, rng.Level)) // for what is equal in all episodes of the task
		switch {
		case len(s.Bodies) != len(w.bodies):
			return snapshot.Bad("primitive_skill", "it has %d objects, must have %d", len(s.Bodies), len(w.bodies))
		case s.Held < -1 || s.Held >= len(w.bodies):
			return snapshot.Bad("primitive_skill", "the arm holds object %d of %d", s.Held, len(w.bodies))
		case s.Open < 0 || s.Open > travel || s.Open > 0 && w.drawer == nil:
			return snapshot.Bad("primitive_skill", "the drawer is open by %v", s.Open)
		case s.First < 0 || s.First > 10 || s.Skills < 0:
			return snapshot.Bad("primitive_skill", "its potential was %v, and %d skills were run", s.First, s.Skills)
		}
		for i, b := range s.Bodies {
			if max(math.Abs(b.At.X), math.Abs(b.At.Y), math.Abs(b.At.Z)) > farthest || math.Abs(b.Yaw) > 360 {
				return snapshot.Bad("primitive_skill", "object %d is at %v, turned by %v", i, b.At, b.Yaw)
			}
			w.bodies[i].at, w.bodies[i].yaw = b.At, b.Yaw
		}
		w.held = s.Held
		if w.drawer != nil {
			w.drawer.open = s.Open
		}
		e.world, e.first, e.skills = w, s.First, s.Skills
		return nil
	})
}
