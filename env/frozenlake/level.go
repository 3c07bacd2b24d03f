package frozenlake

import (
	"errors"
	"fmt"
	"math"

	"vagen/env"
	"vagen/internal/numpyrand"
)

// The kinds of cells of a Map.
const (
	Start  = 'S'
	Frozen = 'F'
	Hole   = 'H'
	Goal   = 'G'
)

// ErrLevel is wrapped by errors about levels that cannot be made or used.
var ErrLevel = errors.New("invalid level")

// Cell is a place on the lake; row 0 is at the top, column 0 on the left.
type Cell struct{ Row, Col int }

// Map is a level: a square of cells with a start, a goal and holes. It does not
// change.
type Map struct {
	n        int
	cells    []byte // row by row
	starts   []Cell
	goal     Cell
	distance []int // moves to the goal without falling, −1 if there is no path
}

// Size bounds: levels of one cell have no room for a start and a goal.
const (
	minSize = 2
	maxSize = 64
)

// maxTries bounds the search for a solvable level; with the usual shares of
// frozen cells a handful of tries is enough.
const maxTries = 100_000

// Generate draws the n×n level of a seed, in which a cell is frozen with
// probability p, start and goal are anywhere, and a path without holes connects them. The stream is numpy's default_rng(seed), consumed as the rule set's
// original does, so that a seed gives the same level as in the original.
//
// Errors wrap ErrLevel: a size outside 2..64, a negative seed, a p outside
// [0, 1], or no solvable level within 100,000 tries.
func Generate(rules env.Rules, seed int64, n int, p float64) (*Map, error) {
	switch {
	case n < minSize || n > maxSize:
		return nil, fmt.Errorf("frozenlake: size %d: %w; allowed are %d to %d", n, ErrLevel, minSize, maxSize)
	case seed < 0:
		return nil, fmt.Errorf("frozenlake: seed %d: %w; seeds must not be negative", seed, ErrLevel)
	case !(p >= 0 && p <= 1):
		return nil, fmt.Errorf("frozenlake: p %v: %w; it must be in [0, 1]", p, ErrLevel)
	}
	var g numpyrand.PCG64
	g.Seed(uint64(seed))
	m := &Map{n: n, cells: make([]byte, n*n), distance: make([]int, n*n)}
	frozen := p / (p + (1 - p)) // as the original normalises its two probabilities
	for range maxTries {
		for i := range m.cells {
			m.cells[i] = Hole
			if g.Float64() < frozen {
				m.cells[i] = Frozen
			}
		}
		start, goal := m.drawEnds(&g)
		for rules == env.Legacy && start == goal {
			start, goal = m.drawEnds(&g)
		}
		if start == goal {
			continue
		}
		m.cells[m.index(start)], m.cells[m.index(goal)] = Start, Goal
		m.goal = goal
		m.measure()
		if m.Distance(start) >= 0 {
			m.starts = []Cell{start}
			return m, nil
		}
	}
	return nil, fmt.Errorf("frozenlake: seed %d, size %d, p %v: %w: no map with a path to the goal in %d tries", seed, n,
		p, ErrLevel, maxTries)
}

func (m *Map) drawEnds(g *numpyrand.PCG64) (start, goal Cell) {
	n := uint32(m.n)
	for _, coordinate := range []*int{&start.Row, &start.Col, &goal.Row, &goal.Col} {
		*coordinate = int(g.IntN(n))
	}
	return start, goal
}

// Parse reads a level from its rows of S, F, H and G: a square with one goal and at least one
// start. The goal need not be reachable. Errors wrap ErrLevel.
func Parse(rows []string) (*Map, error) {
	n := len(rows)
	if n < minSize || n > maxSize {
		return nil, fmt.Errorf("frozenlake: desc has %d rows: %w; allowed are %d to %d", n, ErrLevel, minSize, maxSize)
	}
	m := &Map{n: n, cells: make([]byte, 0, n*n), distance: make([]int, n*n)}
	goals := 0
	for r, row := range rows {
		if len(row) != n {
			return nil, fmt.Errorf("frozenlake: desc row %d, %q, has %d cells: %w; the map has %d rows and must be square", r,
				row, len(row), ErrLevel, n)
		}
		for c := range n {
			switch row[c] {
			case Start:
				m.starts = append(m.starts, Cell{r, c})
			case Goal:
				m.goal = Cell{r, c}
				goals++
			case Frozen, Hole:
			default:
				return nil, fmt.Errorf("frozenlake: desc row %d column %d is %q: %w; allowed are S, F, H and G", r, c, row[c],
					ErrLevel)
			}
		}
		m.cells = append(m.cells, row...)
	}
	if goals != 1 || len(m.starts) == 0 {
		return nil, fmt.Errorf("frozenlake: desc has %d goals and %d starts: %w; one goal and at least one start are needed",
			goals, len(m.starts), ErrLevel)
	}
	m.measure()
	return m, nil
}

// At returns the kind of a cell, 0 outside the lake.
func (m *Map) At(c Cell) byte {
	if !m.inside(c) {
		return 0
	}
	return m.cells[m.index(c)]
}

// Start returns where the player begins; the first such cell of a parsed map
// that has several.
func (m *Map) Start() Cell {
	if len(m.starts) == 0 { // of a zero value
		return Cell{}
	}
	return m.starts[0]
}

// Rows returns the level as Parse reads it.
func (m *Map) Rows() []string {
	rows := make([]string, m.n)
	for r := range rows {
		rows[r] = string(m.cells[r*m.n : (r+1)*m.n])
	}
	return rows
}

// Distance returns the number of moves from a cell to the goal without falling,
// −1 if there is no path: from a hole, from outside, from an enclosed cell.
func (m *Map) Distance(c Cell) int {
	if !m.inside(c) {
		return -1
	}
	return m.distance[m.index(c)]
}

func (m *Map) inside(c Cell) bool { return c.Row >= 0 && c.Row < m.n && c.Col >= 0 && c.Col < m.n }

func (m *Map) index(c Cell) int { return c.Row*m.n + c.Col }

// measure fills in the distances by breadth-first search from the goal.
func (m *Map) measure() {
	for i := range m.distance {
		m.distance[i] = -1
	}
	var room [64]Cell // enough for the usual sizes without a heap allocation
	queue := append(room[:0], m.goal)
	m.distance[m.index(m.goal)] = 0
	for head := 0; head < len(queue); head++ {
		at := queue[head]
		for a := range Actions {
			next := at.step(a)
			if m.inside(next) && m.At(next) != Hole && m.distance[m.index(next)] < 0 {
				m.distance[m.index(next)] = m.distance[m.index(at)] + 1
				queue = append(queue, next)
			}
		}
	}
}

// begin returns the start cell that gym selects with its first uniform number; all are equally
// likely.
func (m *Map) begin(u float64) Cell {
	i := int(math.Floor(u * float64(len(m.starts))))
	return m.starts[min(i, len(m.starts)-1)]
}
