package frozenlake

import (
	"vagen/internal/numpyrand"
)

// Action is a move, numbered as in gymnasium.
type Action int

// The moves. Actions is their number, so that `for a := range Actions` visits
// them all.
const (
	Left Action = iota
	Down
	Right
	Up
	Actions
)

var actionWords = [Actions]string{"Left", "Down", "Right", "Up"}

// String returns the word for the move as prompts spell it.
func (a Action) String() string {
	if a < 0 || a >= Actions {
		return "unknown"
	}
	return actionWords[a]
}

// step returns the neighbour of c in the direction of a, which may be outside.
func (c Cell) step(a Action) Cell {
	switch a {
	case Left:
		c.Col--
	case Down:
		c.Row++
	case Right:
		c.Col++
	case Up:
		c.Row--
	}
	return c
}

// Move returns where a move leads without slipping: the neighbour, or the cell
// itself at the border. Holes and the goal hold the player.
func (m *Map) Move(at Cell, a Action) Cell {
	next := at.step(a)
	if m.ends(at) || !m.inside(next) {
		return at
	}
	return next
}

// ends reports whether a cell ends the episode.
func (m *Map) ends(at Cell) bool {
	kind := m.At(at)
	return kind == Hole || kind == Goal
}

// randomness gives the random numbers of an episode.
type randomness interface {
	gym() float64    // the uniform number that gym draws for each move
	slip() float64   // decides, below slip_prob, that a move goes sideways
	side(n int) int  // to which of n sides
	seed(seed int64) // restarts all of them
}

// streams is the randomness of real episodes.
type streams struct{ world, own numpyrand.PCG64 }

// ownStream makes the stream of slip_prob independent of gym's.
const ownStream = 0x736c6970

func (c *streams) seed(seed int64) {
	c.world.Seed(uint64(seed))
	c.own.Seed(uint64(seed) ^ ownStream<<32)
}
func (c *streams) gym() float64   { return c.world.Float64() }
func (c *streams) slip() float64  { return c.own.Float64() }
func (c *streams) side(n int) int { return int(c.own.IntN(uint32(n))) }

// Shares of gym's slippery ice. They are variables so that the sums are rounded
// as the original's are.
var (
	keepShare = 1.0 / 3.0
	turnShare = (1 - keepShare) / 2
)

// slipped returns the move that results from the move a. gym's slippery ice turns
// it to either side with a third of the probability each; slip_prob turns it to
// one of the sides with that probability.
func slipped(a Action, slippery bool, prob float64, l randomness) Action {
	if prob > 0 && l.slip() < prob {
		// The original lists the sides of a horizontal move as down, up and those
		// of a vertical one as left, right.
		sides := [2]Action{Down, Up}
		if a == Down || a == Up {
			sides = [2]Action{Left, Right}
		}
		a = sides[l.side(2)]
	}
	if !slippery {
		return a
	}
	switch u := l.gym(); {
	case turnShare > u:
		return (a + Actions - 1) % Actions
	case turnShare+keepShare > u:
		return a
	default:
		return (a + 1) % Actions
	}
}
