package sokoban

import (
	"strings"

	"vagen/env"
	"vagen/env/internal/words"
	"vagen/reward"
)

// Text draws the room as characters: the symbols of Parse with a space on each
// side, a line to a row. Under the legacy rules a tab follows each cell.
func (r *Room) Text(rules env.Rules) string {
	symbol := func(row, col int) rune { return symbols[kindOf(r, Cell{row, col})] }
	return words.Grid(r.rows, r.cols, rules == env.Legacy, symbol)
}

// relations returns where the targets and then the boxes are as seen from the
// player, both row by row.
func (r *Room) relations() []reward.Relation {
	list := make([]reward.Relation, 0, 2*r.count)
	add := func(object string, i int) {
		list = append(list, reward.Relate(object, i/r.cols-r.player.Row, i%r.cols-r.player.Col))
	}
	for i, kind := range r.fixed {
		if kind == target {
			add("target", i)
		}
	}
	for i, box := range r.boxes {
		if box {
			add("box", i)
		}
	}
	return list
}

// describe writes the state in a few words. For each target and then each box, row
// by row,
//
//	target V H box V H
//
// gives its position relative to the player: V is up, down or same, and H is left, right
// or same. With moves set, " free a b c d" follows. It gives for up, down, left and right
// the word of the move if it is possible, wall, or stuck for a box that cannot be pushed.
func (r *Room) describe(moves bool) string {
	var list []string
	for _, rel := range r.relations() {
		list = append(list, rel.Object, words.DirectionText(rel))
	}
	if moves {
		list = append(list, "free")
	}
	for a := range Actions {
		next := r.player.step(a)
		beyond := next.step(a)
		switch {
		case !moves:
		case r.Wall(next):
			list = append(list, "wall")
		case r.Box(next) && (r.Wall(beyond) || r.Box(beyond)):
			list = append(list, "stuck")
		default:
			list = append(list, a.String())
		}
	}
	return strings.Join(list, " ")
}

// Describe describes the current state in the words that observations have to use, with
// the moves if Options.DescribeMoves is set. It is "" before Reset.
func (e *Env) Describe() string {
	if e.room == nil {
		return ""
	}
	return e.room.describe(e.o.DescribeMoves)
}

// places writes the room as the structured formats want it.
func (r *Room) places() string {
	boxes, targets := words.Things{Kind: "box"}, words.Things{Kind: "target"}
	for i := range r.fixed {
		at := [2]int{i / r.cols, i % r.cols}
		if r.boxes[i] {
			boxes.At = append(boxes.At, at)
		}
		if r.fixed[i] == target {
			targets.At = append(targets.At, at)
		}
	}
	return words.Dictionary([2]int{r.player.Row, r.player.Col}, boxes, targets)
}
