package sokoban

import (
	"bytes"
	"context"

	"vagen/env"
	"vagen/env/internal/snapshot"
	"vagen/env/internal/turns"
)

var _ env.Snapshotter = (*Env)(nil)

// saved is the state of an episode.
type saved struct {
	Rows     []string // of the room
	Turn     int
	OnTarget int
	Solved   bool
	turns.Past
}

// Snapshot implements env.Snapshotter.
func (e *Env) Snapshot() ([]byte, error) {
	if err := e.Calls.Snapshot(e.room != nil); err != nil {
		return nil, err
	}
	return snapshot.Encode("sokoban", e.o, saved{e.room.Rows(), e.turn, e.onTarget, e.solved, turns.PastOf(&e.Base)})
}

// Restore implements env.Snapshotter.
func (e *Env) Restore(ctx context.Context, state []byte) error {
	var s saved
	return turns.Load(ctx, &e.Base, "sokoban", e.o, state, &s, func() error {
		room, err := Parse(s.Rows)
		switch {
		case err != nil:
			return snapshot.Bad("sokoban", "%v", err)
		case e.fixed != nil && (room.cols != e.fixed.cols || room.count != e.fixed.count ||
			!bytes.Equal(room.fixed, e.fixed.fixed)):
			return snapshot.Bad("sokoban", "its room is not that of the options")
		case e.fixed == nil && (room.rows != e.o.Room[0] || room.cols != e.o.Room[1] || room.count != e.o.Boxes):
			return snapshot.Bad("sokoban", "its room has %d×%d cells and %d boxes, must have %v and %d", room.rows, room.cols,
				room.count, e.o.Room, e.o.Boxes)
		case s.Turn < 0 || s.OnTarget < 0 || s.OnTarget > room.count:
			return snapshot.Bad("sokoban", "it has %d turns and %d of %d boxes on targets", s.Turn, s.OnTarget, room.count)
		}
		e.room, e.turn, e.onTarget, e.solved = room, s.Turn, s.OnTarget, s.Solved
		return nil
	})
}
