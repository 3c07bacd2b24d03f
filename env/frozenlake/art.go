package frozenlake

import (
	"image/color"
	"math"

	"vagen/env/internal/rgb"
	"vagen/env/internal/tiles"
)

// ink is an index into the palette.
type ink uint8

// The colours of a picture.
const (
	inkIce ink = iota
	inkGrid
	inkGlint
	inkWater
	inkDeep
	inkRipple
	inkCrack
	inkShore
	inkSand
	inkMat
	inkMatRim
	inkFlag
	inkPole
	inkCoat
	inkCoatRim
	inkFace
	inks
)

// palette holds the colours before shading. Shading reduces red and green but not blue, so
// colours differ mainly in blue: ice has the most, water and cracks half, shore, mat and
// player little. Of the latter, the shore is light, the mat has no red and the player no
// green.
var palette = [inks]color.RGBA{
	inkIce:     rgb.Of(0xd6eaf8),
	inkGrid:    rgb.Of(0xbad2e6),
	inkGlint:   rgb.Of(0xe4f2fc),
	inkWater:   rgb.Of(0x1e3c82),
	inkDeep:    rgb.Of(0x10245c),
	inkRipple:  rgb.Of(0x608cc8),
	inkCrack:   rgb.Of(0x1e3c82),
	inkShore:   rgb.Of(0xe8ce50),
	inkSand:    rgb.Of(0xa88c3c),
	inkMat:     rgb.Of(0x28a046),
	inkMatRim:  rgb.Of(0x14682c),
	inkFlag:    rgb.Of(0xfad63c),
	inkPole:    rgb.Of(0x46321e),
	inkCoat:    rgb.Of(0xd62824),
	inkCoatRim: rgb.Of(0x780c14),
	inkFace:    rgb.Of(0xffd6b0),
}

// What a picture of a cell shows.
type tileKind uint8

const (
	tileIce tileKind = iota
	tileHole
	tileGoal
	tilePlayer
	tilePlayerHole
	tilePlayerGoal
	tileKinds
)

// What is on the other side of an edge of a cell.
type beyond uint8

const (
	beyondIce beyond = iota
	beyondHole
	beyondShore
	beyonds
)

// edges holds what is on the other side of each edge, by the move that crosses it, in two bits
// each.
type edges uint8

func (e edges) with(a Action, b beyond) edges { return e | edges(b)<<(2*a) }

func (e edges) at(a Action) beyond { return beyond(e>>(2*a)) & 3 }

// bandWide is the width of the marks along the edges; figures are within the inner 20 of 28
// units.
const bandWide = 4

// inkAt returns the colour of a point of a cell. Marks along the edges and the figure do not
// overlap.
func inkAt(kind tileKind, e edges, x, y float64) ink {
	if ink, ok := bandAt(e, x, y); ok {
		return ink
	}
	if ink, ok := figureAt(kind, x, y); ok {
		return ink
	}
	return ground(x, y)
}

// ground draws empty ice: nearly one colour, for contrast with figures, with a thin line
// towards the next cells and two highlights.
func ground(x, y float64) ink {
	if x < 1 || y < 1 {
		return inkGrid
	}
	if d := x + y; x > 5.5 && x < 9.5 && d > 16 && d < 17.2 || x > 18 && x < 21 && d > 39.5 && d < 40.7 {
		return inkGlint
	}
	return inkIce
}

// bandAt draws the mark along an edge: a jagged dark band towards a hole, a straight
// sand-coloured one towards the shore.
func bandAt(e edges, x, y float64) (ink, bool) {
	for a := range Actions {
		b := e.at(a)
		if b == beyondIce {
			continue
		}
		depth, along := x, y // distance from the edge, and position along it
		switch a {
		case Right:
			depth = tiles.Units - x
		case Up:
			depth, along = y, x
		case Down:
			depth, along = tiles.Units-y, x
		}
		if b == beyondShore {
			if depth < bandWide-1 {
				return inkShore, true
			}
			if depth < bandWide {
				return inkSand, true
			}
			continue
		}
		if depth < bandWide+tooth(along) {
			return inkCrack, true
		}
	}
	return 0, false
}

// tooth returns the outline of the jagged edge: three teeth per side.
func tooth(along float64) float64 {
	phase := along / tiles.Units * 3
	phase -= float64(int(phase))
	if phase > 0.5 {
		phase = 1 - phase
	}
	return 3*phase - 0.5
}

// figureAt returns the colour of the figure in the cell, if it covers the point.
func figureAt(kind tileKind, x, y float64) (ink, bool) {
	switch kind {
	case tileHole:
		return water(x, y)
	case tileGoal:
		if ink, ok := flag(x, y); ok {
			return ink, true
		}
		return mat(x, y)
	case tilePlayer:
		return walker(x, y)
	case tilePlayerHole:
		if ink, ok := swimmer(x, y); ok {
			return ink, true
		}
		return water(x, y)
	case tilePlayerGoal:
		if ink, ok := walker(x, y); ok {
			return ink, true
		}
		return mat(x, y)
	}
	return 0, false
}

func water(x, y float64) (ink, bool) {
	switch {
	case tiles.Within(x, y, tiles.Middle, tiles.Middle, 7, 7):
		return inkDeep, true
	case tiles.Within(x, y, tiles.Middle, tiles.Middle, 9, 9):
		return inkWater, true
	case tiles.Within(x, y, tiles.Middle, tiles.Middle, 10, 10):
		return inkRipple, true
	}
	return 0, false
}

func mat(x, y float64) (ink, bool) {
	inside := func(from, to float64) bool { return x > from && x < to && y > from && y < to }
	switch {
	case inside(6, tiles.Units-6):
		return inkMat, true
	case inside(5, tiles.Units-5):
		return inkMatRim, true
	}
	return 0, false
}

func flag(x, y float64) (ink, bool) {
	switch {
	case x > 10 && x < 12 && y > 7 && y < 21:
		return inkPole, true
	case x >= 12 && x < 20 && y > 7 && y < 15 && math.Abs(y-11) < (20-x)/2:
		return inkFlag, true
	}
	return 0, false
}

// walker draws the player on ice or on the start mat.
func walker(x, y float64) (ink, bool) {
	return tiles.Figure(x, y, inkFace, inkCoat, inkCoatRim)
}

// swimmer draws the player in a hole: up to the shoulders, with both arms raised.
func swimmer(x, y float64) (ink, bool) {
	const waterline = 18.5
	arm := func(grow float64) bool {
		side := math.Abs(x - tiles.Middle)
		return y > 8-grow && y < waterline && side > 5-grow && side < 7.4+grow
	}
	switch {
	case y > waterline:
		return 0, false
	case tiles.Within(x, y, tiles.Middle, 12.6, 2.2, 2.3) && y > 11.6:
		return inkFace, true
	case tiles.Within(x, y, tiles.Middle, 12, 3.4, 3.6):
		return inkCoat, true
	case y > 15 && math.Abs(x-tiles.Middle) < 5.4:
		return inkCoat, true
	case arm(0):
		return inkCoat, true
	}
	return 0, false
}
