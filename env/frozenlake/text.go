package frozenlake

import (
	"strings"

	"vagen/env"
	"vagen/env/internal/words"
	"vagen/reward"
)

// Text draws the level with the player as characters: three to a cell, a line to
// a row. P is the player, _ ice, O a hole, G the goal and X the player in a hole.
// The player on the goal is V under the lite rules and √ under the legacy ones,
// which also put a tab after each cell.
func (m *Map) Text(rules env.Rules, player Cell) string {
	return words.Grid(m.n, m.n, rules == env.Legacy, func(row, col int) rune {
		return m.symbol(rules, Cell{row, col}, player)
	})
}

func (m *Map) symbol(rules env.Rules, c, player Cell) rune {
	kind := m.At(c)
	if c == player {
		switch {
		case kind == Hole:
			return 'X'
		case kind == Goal && rules == env.Legacy:
			return '√'
		case kind == Goal:
			return 'V'
		}
		return 'P'
	}
	switch kind {
	case Hole:
		return 'O'
	case Goal:
		return 'G'
	}
	return '_'
}

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
	var b strings.Builder
	b.WriteString(text)
	b.WriteString(" free")
	for a := range Actions {
		b.WriteByte(' ')
		switch next := player.step(a); m.At(next) {
		case 0:
			b.WriteString("none")
		case Hole:
			b.WriteString("hole")
		default:
			b.WriteString(a.String())
		}
	}
	return b.String()
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
