package sokoban

import (
	"cmp"
	"slices"
	"testing"

	"vagen/internal/golden"
	"vagen/reward"
)

// Recorded from VAGEN next (testdata/algorithms_next/relations.json, part
// sokoban_relations): what is true of rooms. They need no walls around them
// there, a box on a target that counts as both, and no order. Rooms without a
// player do not exist here and are skipped.
func TestRelationsOfRoomsEqualTheNewest(t *testing.T) {
	const file = "algorithms_next/relations.json"
	var recorded struct{ Cases []golden.Case }
	golden.Read(t, file, &recorded)
	tally := golden.NewTally(t, file+" (rooms)")
	for _, c := range recorded.Cases {
		if !c.HasTag("sokoban_relations") {
			continue
		}
		tally.Case()
		state := golden.Value[[][]int](t, c.Inputs, "room_state")
		fixed := golden.Value[[][]int](t, c.Inputs, "room_fixed")
		want := golden.Value[[]reward.Relation](t, c.Expected, "items")
		r, ok := roomOf(fixed, state)
		if !ok {
			golden.Equal(t, tally, c.Name+": relations without a player", len(want), 0)
			continue
		}
		got := r.relations()
		order := func(a, b reward.Relation) int {
			return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Vertical, b.Vertical),
				cmp.Compare(a.Horizontal, b.Horizontal))
		}
		slices.SortFunc(got, order)
		slices.SortFunc(want, order)
		golden.Equal(t, tally, c.Name+": relations", len(got), len(want))
		for i := range min(len(got), len(want)) {
			golden.Equal(t, tally, c.Name+": relation", got[i], want[i])
		}
	}
}

// roomOf makes a room of the original's numbers; false if there is no player.
func roomOf(fixed, state [][]int) (r *Room, ok bool) {
	r = &Room{rows: len(fixed), cols: len(fixed[0])}
	for row := range fixed {
		for col, kind := range fixed[row] {
			now := state[row][col]
			box := now == 3 || now == 4
			r.fixed, r.boxes = append(r.fixed, byte(kind)), append(r.boxes, box)
			if box {
				r.count++
			}
			if (now == 5 || now == 6) && !ok {
				r.player, ok = Cell{row, col}, true
			}
		}
	}
	return r, ok
}
