package frozenlake

import (
	"context"
	"fmt"
	"slices"

	"vagen/env"
	"vagen/env/internal/snapshot"
	"vagen/env/internal/turns"
	"vagen/internal/numpyrand"
)

var (
	_ env.Snapshotter = (*Env)(nil)
	_ env.Reseeder    = (*Env)(nil)
)

// saved is the state of an episode.
type saved struct {
	Rows   []string // of the level
	Player Cell
	Turn   int
	World  *numpyrand.PCG64 // gym's stream
	Own    *numpyrand.PCG64 // the stream of slip_prob
	turns.Past
}

// Snapshot implements env.Snapshotter.
func (e *Env) Snapshot() ([]byte, error) {
	if err := e.Calls.Snapshot(e.level != nil); err != nil {
		return nil, err
	}
	s, ok := e.random.(*streams)
	if !ok {
		return nil, fmt.Errorf("frozenlake: snapshot: %w", env.ErrNoSnapshot)
	}
	return snapshot.Encode("frozenlake", e.o, saved{Rows: e.level.Rows(), Player: e.at, Turn: e.turn, World: &s.world,
		Own: &s.own, Past: turns.PastOf(&e.Base)})
}

// Restore implements env.Snapshotter.
func (e *Env) Restore(ctx context.Context, state []byte) error {
	var s saved
	return turns.Load(ctx, &e.Base, "frozenlake", e.o, state, &s, func() error {
		level, err := Parse(s.Rows)
		switch {
		case err != nil:
			return snapshot.Bad("frozenlake", "%v", err)
		case e.fixed != nil && !slices.Equal(s.Rows, e.fixed.Rows()):
			return snapshot.Bad("frozenlake", "its map is not that of the options")
		case e.fixed == nil && level.n != e.o.Size:
			return snapshot.Bad("frozenlake", "its map has %d rows, must be %d", level.n, e.o.Size)
		case !level.inside(s.Player):
			return snapshot.Bad("frozenlake", "the player is at %v, outside the map", s.Player)
		case s.Turn < 0 || s.World == nil || s.Own == nil:
			return snapshot.Bad("frozenlake", "it has %d turns and the random streams %v and %v", s.Turn, s.World != nil,
				s.Own != nil)
		}
		e.level, e.at, e.turn, e.random = level, s.Player, s.Turn, &streams{world: *s.World, own: *s.Own}
		return nil
	})
}

// Reseed implements env.Reseeder: moves slip by the streams of the seed.
func (e *Env) Reseed(seed uint64) error {
	if err := e.Calls.Snapshot(e.level != nil); err != nil {
		return err
	}
	e.random.seed(int64(seed))
	return nil
}
