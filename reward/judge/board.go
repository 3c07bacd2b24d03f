package judge

import (
	"strings"
	"unicode/utf8"

	"vagen/reward"
)

// piece is the meaning of a symbol on a board.
type piece struct {
	player  bool
	objects string // up to two, in the order of board.order
}

// board describes an environment's drawing of its state in text.
type board struct {
	order  []string // of the objects in a list of relations
	pieces map[rune]piece
}

// boards are those of the environments whose symbolic formats require a map. The
// symbols are those of their text observations.
var boards = map[string]board{
	"frozenlake": {[]string{"target", "hole"}, map[rune]piece{
		'_': {}, 'P': {player: true}, 'O': {objects: "hole"}, 'G': {objects: "target"},
		'X': {player: true, objects: "hole"}, 'V': {player: true, objects: "target"}, '√': {player: true, objects: "target"}}},
	"sokoban": {[]string{"target", "box"}, map[rune]piece{
		'#': {}, '_': {}, 'P': {player: true}, 'O': {objects: "target"}, 'X': {objects: "box"},
		'√': {objects: "target box"}, 'S': {player: true, objects: "target"}}},
}

// maxSide limits the size of boards.
const maxSide = 64

// Board reads a map of an environment's state, one line for each row, the symbols
// with or without white space between them. It returns the positions of the objects
// relative to the player: kind by kind, row by row. It reports false for a text that
// is not such a map: it has other symbols, rows of unequal length, no player or more
// than one, or the environment has no board.
func Board(text, environment string) ([]reward.Relation, bool) {
	b, ok := boards[environment]
	if !ok {
		return nil, false
	}
	rows := b.rows(text)
	at := [2]int{-1, -1}
	for y, row := range rows {
		if len(row) != len(rows[0]) {
			return nil, false
		}
		for x, p := range row {
			if !p.player {
				continue
			}
			if at[0] >= 0 {
				return nil, false
			}
			at = [2]int{y, x}
		}
	}
	if at[0] < 0 {
		return nil, false
	}
	list := []reward.Relation{}
	for _, object := range b.order {
		for y, row := range rows {
			for x, p := range row {
				if strings.Contains(p.objects, object) {
					list = append(list, reward.Relate(object, y-at[0], x-at[1]))
				}
			}
		}
	}
	return list, true
}

// rows reads the cells of a map; nil if the text is not a map.
func (b board) rows(text string) [][]piece {
	var rows [][]piece
	for line := range strings.Lines(text) {
		symbols := strings.Join(strings.FieldsFunc(line, pythonSpace), "")
		if symbols == "" {
			continue
		}
		if len(rows) == maxSide || utf8.RuneCountInString(symbols) > maxSide {
			return nil
		}
		row := make([]piece, 0, len(symbols))
		for _, r := range symbols {
			p, ok := b.pieces[r]
			if !ok {
				return nil
			}
			row = append(row, p)
		}
		rows = append(rows, row)
	}
	return rows
}
