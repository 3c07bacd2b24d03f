package navigation

import (
	"context"
	"reflect"

	"vagen/env"
	"vagen/env/internal/snapshot"
	"vagen/env/internal/turns"
)

var _ env.Snapshotter = (*Env)(nil)

// saved is the state of an episode.
type saved struct {
	Index     int // of the task
	Task      Task
	Look      Heading
	Horizon   int
	East      int // steps from the start
	North     int
	Steps     int
	Succeeded bool
	Formatted bool
	turns.Past
}

// Snapshot implements env.Snapshotter.
func (e *Env) Snapshot() ([]byte, error) {
	if err := e.Calls.Snapshot(e.scene != nil); err != nil {
		return nil, err
	}
	a := e.agent
	return snapshot.Encode("navigation", e.o, saved{e.index, e.task, a.Look, a.Horizon, a.i, a.j, e.steps, e.succeeded,
		e.formatted, turns.PastOf(&e.Base)})
}

// Restore implements env.Snapshotter.
func (e *Env) Restore(ctx context.Context, state []byte) error {
	var s saved
	return turns.Load(ctx, &e.Base, "navigation", e.o, state, &s, func() error {
		if s.Index < 0 || s.Index >= e.tasks.Len() {
			return snapshot.Bad("navigation", "its task is number %d of %d", s.Index, e.tasks.Len())
		}
		task, scene, err := e.tasks.At(s.Index)
		if err != nil {
			return err
		}
		if !sameTask(task, s.Task) {
			return snapshot.Bad("navigation", "task %d differs from its task", s.Index)
		}
		agent := newAgent(task.Start, e.o.StepLength)
		agent.Look, agent.Horizon, agent.i, agent.j = s.Look, s.Horizon, s.East, s.North
		x, z := agent.Position()
		switch {
		case s.Look > 3 || s.Horizon < highest || s.Horizon > lowest || s.Horizon%lookStep != 0:
			return snapshot.Bad("navigation", "the agent looks to %d, %d degrees downwards", s.Look, s.Horizon)
		case (s.East != 0 || s.North != 0) && !scene.Free(x, z):
			return snapshot.Bad("navigation", "the agent is at (%v, %v), which is not free", x, z)
		case s.Steps < 0:
			return snapshot.Bad("navigation", "it has %d steps", s.Steps)
		}
		e.index, e.task, e.scene, e.agent = s.Index, task, scene, agent
		e.steps, e.succeeded, e.formatted = s.Steps, s.Succeeded, s.Formatted
		return nil
	})
}

// sameTask compares tasks; an empty list of hidden objects is none.
func sameTask(a, b Task) bool {
	if len(a.Hide) == 0 && len(b.Hide) == 0 {
		a.Hide, b.Hide = nil, nil
	}
	return reflect.DeepEqual(a, b)
}
