package frozenlake

import (
	"vagen/env"
	"vagen/env/internal/words"
	"vagen/reward"
)

// Text draws the level with the player as characters: three to a cell, a line to
// a row. P is the player, _ ice, O a hole, G the goal and X the player in a hole.
// The player on the goal is V under the lite rules and √ under the legacy ones,
// which also put a tab after each cell.
func (m *Map) Text(rules env.Rules, player Cell) string {
	legacy := rules == env.Legacy
	return words.Grid(m.n, m.n, legacy, func(row, col int) rune {
		kind := kindOf(m, Cell{row, col}, player)
		if legacy && kind == tilePlayerGoal {
			return '√'
		}
		return symbols[kind]
	})
}

// symbols are those of the text, by what a picture of the cell shows.
var symbols = [tileKinds]rune{tileIce: '_', tileHole: 'O', tileGoal: 'G', tilePlayer: 'P', tilePlayerHole: 'X',
	tilePlayerGoal: 'V'}

// describe writes the state in a few words. The first three,
//
//	goal V H
//
// give the position of the goal relative to the player: V is up, down or same, and H is
// left, right or same. With holes set,
//
//	goal V H free a b c d
//
// also gives what is to the left, below, to the right and above: the word of the move
// if it is safe, hole, or none at the border.
func (m *Map) describe(player Cell, holes bool) string {
	text := "goal " + words.DirectionText(reward.Relate("", m.goal.Row-player.Row, m.goal.Col-player.Col))
	if !holes {
		return text
	}
	text += " free"
	for a := range Actions {
		switch m.At(player.step(a)) {
		case 0:
			text += " none"
		case Hole:
			text += " hole"
		default:
			text += " " + a.String()
		}
	}
	return text
}

// Describe describes the current state in the words that observations have to use, with
// the neighbour cells if Options.DescribeHoles is set. It is "" before Reset.
func (e *Env) Describe() string {
	if e.level == nil {
		return ""
	}
	return e.level.describe(e.at, e.o.DescribeHoles)
}

// relations returns where the goal and then, row by row, the holes are as seen
// from the player.
func (m *Map) relations(player Cell) []reward.Relation {
	list := []reward.Relation{reward.Relate("target", m.goal.Row-player.Row, m.goal.Col-player.Col)}
	for i, kind := range m.cells {
		if kind == Hole {
			list = append(list, reward.Relate("hole", i/m.n-player.Row, i%m.n-player.Col))
		}
	}
	return list
}

// places returns the level in the form of the structured formats.
func (m *Map) places(player Cell) string {
	holes := words.Things{Kind: "hole"}
	for i, kind := range m.cells {
		if kind == Hole {
			holes.At = append(holes.At, [2]int{i / m.n, i % m.n})
		}
	}
	return words.Dictionary([2]int{player.Row, player.Col},
		words.Things{Kind: "target", At: [][2]int{{m.goal.Row, m.goal.Col}}}, holes)
}
