package navigation

import (
	"fmt"
	"image/color"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"vagen/env/internal/rays"
)

// Sizes of the world in metres.
const (
	gridSize    = 0.1 // of the floor's occupancy grid
	bodyRadius  = 0.2 // of the agent
	eyeHeight   = 1.576
	wallHeight  = 2.6
	lowestBlock = 0.08 // lower objects can be walked over
)

// Object is an object in a scene.
type Object struct {
	Type   string
	ID     string // Type|x|y|z as AI2-THOR writes it
	Color  string // in words
	Center [3]float64
	Size   [3]float64 // width along x, height, depth along z
}

// Scene is a generated room with an occupancy grid of its floor. It is immutable and
// safe for concurrent use.
type Scene struct {
	name    string
	room    room
	lo, hi  rays.Vec // of the room; y from floor to ceiling
	objects []Object
	solids  []rays.Solid
	colors  [4]color.RGBA // walls: north, east, south, west
	floor   [2]rgb

	cols, rows int
	blocked    []bool // cell (col, row) by row·cols + col: the agent can't stand there
}

// newScene returns an empty room.
func newScene(name string, kind room, lo, hi rays.Vec, r *rand.Rand) *Scene {
	s := &Scene{name: name, room: kind, lo: rays.V(lo.X, 0, lo.Z), hi: rays.V(hi.X, wallHeight, hi.Z),
		floor: catalog.Rooms[kind].Floor}
	base := [][3]uint8{{214, 206, 190}, {196, 208, 214}, {208, 200, 210}, {202, 212, 196}}[r.IntN(4)]
	// Each wall has its own shade, so that pictures show the direction of view.
	for i, shift := range [4]int{8, -14, -30, -4} {
		part := func(c uint8) uint8 { return uint8(min(max(int(c)+shift, 0), 255)) }
		s.colors[i] = color.RGBA{part(base[0]), part(base[1]), part(base[2]), 255}
	}
	s.cols, s.rows = int(math.Ceil((s.hi.X-s.lo.X)/gridSize)), int(math.Ceil((s.hi.Z-s.lo.Z)/gridSize))
	s.blocked = make([]bool, s.cols*s.rows)
	for row := range s.rows {
		for col := range s.cols {
			x, z := s.cell(col, row)
			s.blocked[row*s.cols+col] = x-bodyRadius < s.lo.X || x+bodyRadius > s.hi.X || z-bodyRadius < s.lo.Z || z+
				bodyRadius > s.hi.Z
		}
	}
	return s
}

// cell returns the centre of a cell.
func (s *Scene) cell(col, row int) (x, z float64) {
	return s.lo.X + (float64(col)+0.5)*gridSize, s.lo.Z + (float64(row)+0.5)*gridSize
}

// Free reports whether the agent can stand at a position.
func (s *Scene) Free(x, z float64) bool {
	// Positions on the border of two cells belong to the upper cell, whatever the
	// rounding of sums of steps.
	const nudge = 1e-6
	col, row := int(math.Floor((x-s.lo.X)/gridSize+nudge)), int(math.Floor((z-s.lo.Z)/gridSize+nudge))
	return col >= 0 && row >= 0 && col < s.cols && row < s.rows && !s.blocked[row*s.cols+col]
}

// clear reports whether the agent can walk straight from one position to another.
func (s *Scene) clear(x0, z0, x1, z1 float64) bool {
	n := int(math.Ceil(math.Hypot(x1-x0, z1-z0) / (gridSize / 2)))
	for i := 1; i <= n; i++ {
		t := float64(i) / float64(n)
		if !s.Free(x0+(x1-x0)*t, z0+(z1-z0)*t) {
			return false
		}
	}
	return true
}

// addObject adds an object with its centre at center, turned clockwise by a number of quarter
// turns. At 0 its front, the side of greatest depth, faces north.
func (s *Scene) addObject(k *kind, center rays.Vec, turns int, tint string) {
	w, d := k.footprint(turns)
	lo := rays.V(center.X-w/2, center.Y-k.H/2, center.Z-d/2)
	o := Object{Type: k.Name, Color: tint, Center: [3]float64{center.X, center.Y, center.Z}, Size: [3]float64{w, k.H, d},
		ID: fmt.Sprintf("%s|%+06.2f|%+06.2f|%+06.2f", k.Name, center.X, center.Y, center.Z)}
	for _, p := range k.Parts {
		x0, z0, x1, z1 := turned(p, turns)
		s.solids = append(s.solids, rays.Solid{Form: p.Form, Color: p.Ink.of(tint), Object: len(s.objects),
			Lo: rays.V(lo.X+x0*w, lo.Y+p.Box[1]*k.H, lo.Z+z0*d), Hi: rays.V(lo.X+x1*w, lo.Y+p.Box[4]*k.H, lo.Z+z1*d)})
	}
	s.objects = append(s.objects, o)
	if lo.Y+k.H > lowestBlock && k.W*k.D > 0.04 && lo.Y < 1.5 {
		s.block(lo.X, lo.Z, lo.X+w, lo.Z+d)
	}
}

// turned returns the footprint of a part after quarter turns clockwise, seen from
// above.
func turned(p part, turns int) (x0, z0, x1, z1 float64) {
	x0, z0, x1, z1 = p.Box[0], p.Box[2], p.Box[3], p.Box[5]
	for range (turns%4 + 4) % 4 {
		x0, z0, x1, z1 = z0, 1-x1, z1, 1-x0
	}
	return x0, z0, x1, z1
}

// of returns the colour of an ink on an object of a tint.
func (i ink) of(tint string) color.RGBA {
	c := catalog.Tints[tint].RGBA
	switch i {
	case own:
		return c
	case ownDark:
		return color.RGBA{uint8(float64(c.R) * 0.7), uint8(float64(c.G) * 0.7), uint8(float64(c.B) * 0.7), 255}
	}
	return catalog.Palette[i].RGBA
}

// block marks the cells where the agent would touch a rectangle.
func (s *Scene) block(x0, z0, x1, z1 float64) {
	for row := range s.rows {
		for col := range s.cols {
			x, z := s.cell(col, row)
			dx, dz := max(x0-x, x-x1, 0), max(z0-z, z-z1, 0)
			if dx*dx+dz*dz < bodyRadius*bodyRadius {
				s.blocked[row*s.cols+col] = true
			}
		}
	}
}

// sceneState is a scene's state for undo.
type sceneState struct {
	objects, solids int
	blocked         []bool
}

func (s *Scene) mark() sceneState {
	return sceneState{len(s.objects), len(s.solids), slices.Clone(s.blocked)}
}

func (s *Scene) undo(m sceneState) {
	s.objects, s.solids, s.blocked = s.objects[:m.objects], s.solids[:m.solids], m.blocked
}

// count returns the number of objects of a type.
func (s *Scene) count(name string) int {
	n := 0
	for i := range s.objects {
		if s.objects[i].Type == name {
			n++
		}
	}
	return n
}

// Name returns the name of the scene.
func (s *Scene) Name() string { return s.name }

// Objects returns the objects in the scene. The slice must not be changed.
func (s *Scene) Objects() []Object { return s.objects }

// Bounds returns the positions of the walls: the room is between (x0, z0) and (x1, z1).
func (s *Scene) Bounds() (x0, z0, x1, z1 float64) { return s.lo.X, s.lo.Z, s.hi.X, s.hi.Z }

// drawWord draws one of the words of a list.
func drawWord(r *rand.Rand, list string) string {
	words := strings.Fields(list)
	return words[r.IntN(len(words))]
}
