package sokoban

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
	inkFloor ink = iota
	inkGrid
	inkBrick
	inkMortar
	inkBrickLight
	inkCrate
	inkCrateRim
	inkCrateSlat
	inkDone
	inkDoneRim
	inkDoneSlat
	inkRing
	inkWallEdge
	inkBoxEdge
	inkCoat
	inkCoatRim
	inkFace
	inks
)

// palette holds the colours before shading. Shading reduces red and green but not blue, so
// colours differ mainly in blue: floor has the most, rings much, walls half, crates and
// player little. Of the latter, crates have almost no blue, crates on a target no red, and
// the player no green.
var palette = [inks]color.RGBA{
	inkFloor:      rgb.Of(0xdce6f0),
	inkGrid:       rgb.Of(0xc2cedc),
	inkBrick:      rgb.Of(0x544e6e),
	inkMortar:     rgb.Of(0x302c46),
	inkBrickLight: rgb.Of(0x706888),
	inkCrate:      rgb.Of(0xe2ba46),
	inkCrateRim:   rgb.Of(0x825414),
	inkCrateSlat:  rgb.Of(0xf6d670),
	inkDone:       rgb.Of(0x24aa46),
	inkDoneRim:    rgb.Of(0x0c6428),
	inkDoneSlat:   rgb.Of(0x6ed678),
	inkRing:       rgb.Of(0x9628c8),
	inkWallEdge:   rgb.Of(0x423c5a),
	inkBoxEdge:    rgb.Of(0xe2ba46),
	inkCoat:       rgb.Of(0xd62824),
	inkCoatRim:    rgb.Of(0x780c14),
	inkFace:       rgb.Of(0xffd6b0),
}

// What a picture of a cell shows.
type tileKind uint8

const (
	tileFloor tileKind = iota
	tileTarget
	tileBox
	tileDone
	tilePlayer
	tilePlayerTarget
	tileWall
	tileKinds
)

// What is on the other side of an edge of a cell.
type beyond uint8

const (
	beyondFloor beyond = iota
	beyondWall
	beyondBox
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
	if kind == tileWall {
		return bricks(x, y)
	}
	if ink, ok := bandAt(e, x, y); ok {
		return ink
	}
	if ink, ok := figureAt(kind, x, y); ok {
		return ink
	}
	if x < 1 || y < 1 {
		return inkGrid
	}
	return inkFloor
}

// bricks draws a wall of four rows of bricks.
func bricks(x, y float64) ink {
	course := int(y / 7)
	if course%2 == 1 {
		x += 7
	}
	along, up := x-14*float64(int(x/14)), y-7*float64(course)
	switch {
	case up < 1 || along < 1:
		return inkMortar
	case up < 2:
		return inkBrickLight
	}
	return inkBrick
}

// bandAt draws the mark along an edge: solid towards a wall, dashed towards a box.
func bandAt(e edges, x, y float64) (ink, bool) {
	for a := range Actions {
		b := e.at(a)
		if b == beyondFloor {
			continue
		}
		depth, along := y, x // distance from the edge, and position along it
		switch a {
		case Down:
			depth = tiles.Units - y
		case Left:
			depth, along = x, y
		case Right:
			depth, along = tiles.Units-x, y
		}
		switch {
		case depth >= bandWide:
		case b == beyondWall:
			return inkWallEdge, true
		case math.Abs(along-tiles.Middle) < 10:
			return inkBoxEdge, true
		}
	}
	return 0, false
}

// figureAt returns the colour of the figure in the cell, if it covers the point.
func figureAt(kind tileKind, x, y float64) (ink, bool) {
	switch kind {
	case tileTarget:
		return ring(x, y)
	case tileBox:
		return crate(x, y, inkCrate, inkCrateRim, inkCrateSlat)
	case tileDone:
		return crate(x, y, inkDone, inkDoneRim, inkDoneSlat)
	case tilePlayer, tilePlayerTarget:
		if ink, ok := tiles.Figure(x, y, inkFace, inkCoat, inkCoatRim); ok || kind == tilePlayer {
			return ink, ok
		}
		return ring(x, y)
	}
	return 0, false
}

// ring draws a target: a wide ring with a dot.
func ring(x, y float64) (ink, bool) {
	in := func(radius float64) bool { return tiles.Within(x, y, tiles.Middle, tiles.Middle, radius, radius) }
	if in(10) && !in(6.5) || in(3) {
		return inkRing, true
	}
	return 0, false
}

// crate draws a box with a frame and a diagonal.
func crate(x, y float64, face, rim, slat ink) (ink, bool) {
	reach := max(math.Abs(x-tiles.Middle), math.Abs(y-tiles.Middle))
	switch {
	case reach > 10:
		return 0, false
	case reach > 8.9:
		return rim, true
	case reach > 6.5:
		return slat, true
	case reach > 5.6:
		return rim, true
	case math.Abs(x-y) < 1.5:
		return slat, true
	}
	return face, true
}
