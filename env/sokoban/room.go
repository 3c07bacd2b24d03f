package sokoban

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrRoom is wrapped by errors about rooms that cannot be made or used.
var ErrRoom = errors.New("invalid room")

// Cell is a place in a room; row 0 is at the top, column 0 on the left.
type Cell struct{ Row, Col int }

// Action is a move, numbered as in the originals less one.
type Action int

// The moves. Actions is their number, so that `for a := range Actions` visits
// them all.
const (
	Up Action = iota
	Down
	Left
	Right
	Actions
)

var actionWords = [Actions]string{"Up", "Down", "Left", "Right"}

// String returns the word for the move as prompts spell it.
func (a Action) String() string {
	if a < 0 || a >= Actions {
		return "unknown"
	}
	return actionWords[a]
}

// step returns the neighbour of c in the direction of a.
func (c Cell) step(a Action) Cell {
	switch a {
	case Up:
		c.Row--
	case Down:
		c.Row++
	case Left:
		c.Col--
	case Right:
		c.Col++
	}
	return c
}

// The fixed content of a cell, with the numbers of the originals.
const (
	wall   = 0
	floor  = 1
	target = 2
)

// Bounds of a room. Boxes and cells are packed into 128 bits where rooms are
// searched.
const (
	minSide  = 3
	maxSide  = 32
	maxBoxes = 9
)

// Room is a room with its boxes and its player. Its border is wall. The zero
// value is invalid; Generate and Parse make rooms.
type Room struct {
	rows, cols int
	fixed      []byte // wall, floor or target, row by row; never changed
	boxes      []bool // of each cell
	player     Cell
	count      int // boxes
}

// Clone returns an independent copy.
func (r *Room) Clone() *Room {
	c := *r
	c.boxes = slices.Clone(r.boxes)
	return &c
}

// Size returns the number of rows and columns, walls included.
func (r *Room) Size() (rows, cols int) { return r.rows, r.cols }

// Player returns where the player is.
func (r *Room) Player() Cell { return r.player }

// Wall reports whether a cell is a wall; everything outside the room is.
func (r *Room) Wall(c Cell) bool { return !r.inside(c) || r.fixed[r.index(c)] == wall }

// Target reports whether a cell is a target.
func (r *Room) Target(c Cell) bool { return r.inside(c) && r.fixed[r.index(c)] == target }

// Box reports whether a box stands on a cell.
func (r *Room) Box(c Cell) bool { return r.inside(c) && r.boxes[r.index(c)] }

// OnTarget returns how many boxes stand on targets, as the originals count: all
// boxes less the targets that hold none.
func (r *Room) OnTarget() int {
	n := r.count
	for i, kind := range r.fixed {
		if kind == target && !r.boxes[i] {
			n--
		}
	}
	return n
}

func (r *Room) inside(c Cell) bool {
	return c.Row >= 0 && c.Row < r.rows && c.Col >= 0 && c.Col < r.cols
}

func (r *Room) index(c Cell) int { return c.Row*r.cols + c.Col }

// Move makes a move: onto a free cell, or pushing the box there onto a free cell
// beyond. It reports whether the player moved.
func (r *Room) Move(a Action) bool {
	next := r.player.step(a)
	if r.Wall(next) {
		return false
	}
	if r.Box(next) {
		beyond := next.step(a)
		if r.Wall(beyond) || r.Box(beyond) {
			return false
		}
		r.boxes[r.index(next)], r.boxes[r.index(beyond)] = false, true
	}
	r.player = next
	return true
}

// symbols are what Parse reads, by what a picture of the cell shows.
var symbols = [tileKinds]rune{tileFloor: '_', tileTarget: 'O', tileBox: 'X', tileDone: '√', tilePlayer: 'P',
	tilePlayerTarget: 'S', tileWall: '#'}

// Parse reads a room from its rows, one symbol to a cell:
//
//	# wall   _ floor   O target   X box   √ box on a target
//	P player   S player on a target
//
// There must be one player, at least one box, as many targets as boxes and walls
// all around. Errors wrap ErrRoom.
func Parse(rows []string) (*Room, error) {
	n := len(rows)
	if n < minSide || n > maxSide {
		return nil, fmt.Errorf("sokoban: room has %d rows: %w; allowed are %d to %d", n, ErrRoom, minSide, maxSide)
	}
	width := len([]rune(rows[0]))
	if width < minSide || width > maxSide {
		return nil, fmt.Errorf("sokoban: room has %d columns: %w; allowed are %d to %d", width, ErrRoom, minSide, maxSide)
	}
	r := &Room{rows: n, cols: width, fixed: make([]byte, n*width), boxes: make([]bool, n*width)}
	players, targets := 0, 0
	for row, text := range rows {
		line := []rune(text)
		if len(line) != width {
			return nil, fmt.Errorf("sokoban: room row %d, %q, has %d cells: %w; the first row has %d", row, text, len(line),
				ErrRoom, width)
		}
		for col, symbol := range line {
			i := row*width + col
			kind := tileKind(slices.Index(symbols[:], symbol))
			switch kind {
			case tileWall:
				continue
			case tileFloor, tileBox, tilePlayer:
				r.fixed[i] = floor
			case tileTarget, tileDone, tilePlayerTarget:
				r.fixed[i] = target
				targets++
			default:
				return nil, fmt.Errorf("sokoban: room row %d column %d is %q: %w; allowed are #_O√XPS", row, col, symbol, ErrRoom)
			}
			if row == 0 || col == 0 || row == n-1 || col == width-1 {
				return nil, fmt.Errorf("sokoban: room row %d column %d is %q: %w; the border must be wall, #", row, col, symbol,
					ErrRoom)
			}
			switch kind {
			case tileBox, tileDone:
				r.boxes[i] = true
				r.count++
			case tilePlayer, tilePlayerTarget:
				r.player = Cell{row, col}
				players++
			}
		}
	}
	if players != 1 || r.count == 0 || r.count > maxBoxes || targets != r.count {
		return nil, fmt.Errorf("sokoban: room has %d players, %d boxes and %d targets: %w; one player, 1 to %d boxes and as many targets are needed",
			players, r.count, targets, ErrRoom, maxBoxes)
	}
	return r, nil
}

// Rows returns the room as Parse reads it.
func (r *Room) Rows() []string {
	rows := make([]string, r.rows)
	var b strings.Builder
	for row := range rows {
		b.Reset()
		for col := range r.cols {
			b.WriteRune(symbols[kindOf(r, Cell{row, col})])
		}
		rows[row] = b.String()
	}
	return rows
}
