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
	golden.Each(t, "algorithms_next/relations.json", func(c *golden.Run) {
		if !c.HasTag("sokoban_relations") {
			return
		}
		state, fixed := golden.Input[[][]int](c, "room_state"), golden.Input[[][]int](c, "room_fixed")
		want := golden.Expected[[]reward.Relation](c, "items")
		r, ok := roomOf(fixed, state)
		if !ok {
			c.Equal("relations without a player", len(want), 0)
			return
		}
		got := r.relations()
		order := func(a, b reward.Relation) int {
			return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Vertical, b.Vertical),
				cmp.Compare(a.Horizontal, b.Horizontal))
		}
		slices.SortFunc(got, order)
		slices.SortFunc(want, order)
		c.Equal("relations", got, want)
	})
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
