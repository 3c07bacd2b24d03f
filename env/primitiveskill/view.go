package primitiveskill

import (
	"image"
	"image/color"
	"math"

	"vagen/env/internal/rays"
	"vagen/env/internal/rgb"
)

// The original's camera: it looks from one metre before the table, 0.6 m high, at
// a point behind its middle.
var eye = func() rays.Eye {
	from, to := Point{1, 0, 0.6}, Point{-0.2, 0, 0.2}
	down := math.Atan2(from.Z-to.Z, from.X-to.X) * 180 / math.Pi
	return rays.Eye{At: toPictureFrame(from), Pitch: down, FOV: 180 / math.Pi}
}()

// toPictureFrame converts a position to the frame of pictures: y to the right, z up, and x towards
// the eye.
func toPictureFrame(p Point) rays.Vec { return rays.V(p.Y, p.Z, -p.X) }

// solid returns a form around a position.
func solid(form rays.Form, at Point, x, y, z float64, c color.RGBA) rays.Solid {
	half := rays.V(y, z, x)
	return rays.Solid{Form: form, Lo: toPictureFrame(at).Sub(half), Hi: toPictureFrame(at).Add(half), Color: c}
}

// Colours of the scene.
var (
	wood       = rgb.Of(0xceaa7e)
	woodDark   = rgb.Of(0xbe9a6e)
	line       = rgb.Of(0x96744e)
	floorLight = rgb.Of(0xb0b6bc)
	floorDark  = rgb.Of(0xa0a6ac)
	back       = rgb.Of(0xd6dee6)
	armWhite   = rgb.Of(0xeeeeec)
	armDark    = rgb.Of(0x464a52)
	cabinet    = rgb.Of(0x966842)
	cabinetIn  = rgb.Of(0xceb492)
	handle     = rgb.Of(0x3c3e42)
	white      = rgb.Of(0xfafaf8)
	stem       = rgb.Of(0x583c22)
)

// draw shows a world from the camera, size pixels a side. Equal worlds give equal
// bytes.
func (w *world) draw(name string, size int) *image.RGBA {
	var list []rays.Solid
	for i := range w.bodies {
		b := &w.bodies[i]
		if b.ball {
			list = append(list, solid(rays.Globe, b.at, b.half, b.half, b.half, b.color),
				solid(rays.Box, Point{b.at.X, b.at.Y, b.top() + 0.006}, 0.003, 0.003, 0.01, stem))
			continue
		}
		s := solid(rays.Box, b.at, b.half, b.half, b.half, b.color)
		s.Yaw = b.yaw
		list = append(list, s)
	}
	if w.drawer != nil {
		list = append(list, w.drawer.solids()...)
	}
	list = append(list, w.arm()...)
	picture := rays.World{Solids: list, Shade: rays.Lit,
		Background: func(from, dir rays.Vec) (float64, color.RGBA, int32) {
			return ground(name, w.drawer == nil, from, dir)
		}}
	return picture.Draw(eye, size)
}

// ground is the table with lines every 100 mm, and round targets on it, or the
// floor when there is no table.
func ground(name string, table bool, from, dir rays.Vec) (t float64, c color.RGBA, surface int32) {
	if dir.Y >= 0 {
		return math.Inf(1), back, 0
	}
	t = -from.Y / dir.Y
	p := from.Add(dir.Mul(t))
	x, y, away := -p.Z, p.X, t*math.Sqrt(dir.Dot(dir))
	lit := func(c color.RGBA, n int32) (float64, color.RGBA, int32) {
		return t, rays.Lit(c, rays.V(0, 1, 0), away), n
	}
	const edge = 0.75
	if !table || math.Abs(y) > edge || x < -0.9 || x > 0.45 {
		if away > 8 {
			return t, back, 0
		}
		if (int(math.Floor(x*4))+int(math.Floor(y*4)))&1 == 0 {
			return lit(floorLight, 1)
		}
		return lit(floorDark, 2)
	}
	if name == PlaceTwoCube {
		for _, target := range []Point{leftTarget, rightTarget} {
			switch r := math.Hypot(x-target.X, y-target.Y) / targetRadius; {
			case r > 1:
			case int(r*5)%2 == 0:
				return lit(red, 3)
			default:
				return lit(white, 4)
			}
		}
	}
	if gridDistance(x) < 0.002 || gridDistance(y) < 0.002 {
		if math.Abs(x) < 0.003 {
			return lit(line, 5) // x = 0
		}
		return lit(woodDark, 6)
	}
	return lit(wood, 7)
}

// gridDistance is the distance of a number from the nearest multiple of 0.1.
func gridDistance(v float64) float64 { return math.Abs(v - math.Round(v*10)/10) }

// arm draws the robot: a base, two beams of balls and the gripper.
func (w *world) arm() []rays.Solid {
	base := Point{-0.615, 0, 0}
	if w.drawer != nil {
		base.X = -0.5
	}
	g := w.gripper
	shoulder := Point{base.X, base.Y, 0.36}
	wrist := Point{g.X, g.Y, g.Z + 0.17}
	elbow := Point{(shoulder.X+wrist.X)/2 - 0.1, (shoulder.Y + wrist.Y) / 2, max(shoulder.Z, wrist.Z) + 0.24}
	list := []rays.Solid{
		solid(rays.Tube, Point{base.X, base.Y, 0.06}, 0.1, 0.1, 0.06, armDark),
		solid(rays.Tube, Point{base.X, base.Y, 0.22}, 0.065, 0.065, 0.16, armWhite),
	}
	beam := func(a, b Point, thick float64) {
		const balls = 14
		for i := range balls {
			k := float64(i) / (balls - 1)
			list = append(list, solid(rays.Globe, Point{a.X + (b.X-a.X)*k, a.Y + (b.Y-a.Y)*k, a.Z + (b.Z-a.Z)*k}, thick, thick,
				thick, armWhite))
		}
	}
	beam(shoulder, elbow, 0.05)
	beam(elbow, wrist, 0.042)
	for _, joint := range []Point{shoulder, elbow, wrist} {
		list = append(list, solid(rays.Globe, joint, 0.056, 0.056, 0.056, armDark))
	}
	spread := 0.04
	if w.held >= 0 {
		spread = w.bodies[w.held].half
	}
	return append(list,
		solid(rays.Tube, Point{g.X, g.Y, g.Z + 0.12}, 0.035, 0.035, 0.04, armWhite),
		solid(rays.Box, Point{g.X, g.Y, g.Z + 0.07}, 0.025, 0.09, 0.02, armWhite),
		solid(rays.Box, Point{g.X, g.Y - spread - 0.008, g.Z + 0.02}, 0.01, 0.008, 0.035, armDark),
		solid(rays.Box, Point{g.X, g.Y + spread + 0.008, g.Z + 0.02}, 0.01, 0.008, 0.035, armDark))
}

// solids draws the cabinet and its drawer.
func (d *drawer) solids() []rays.Solid {
	front := d.front()
	middle := front - drawerDepth/2
	return []rays.Solid{
		solid(rays.Box, Point{drawerX, closedFront - 0.27, 0.26}, 0.24, 0.25, 0.26, cabinet),
		solid(rays.Box, Point{drawerX, front - frontGap/2, (frontLow + frontHigh) / 2}, frontHalf, frontGap/2,
			(frontHigh-frontLow)/2, cabinet),
		solid(rays.Box, Point{drawerX, middle, drawerFloor - 0.01}, drawerHalf, drawerDepth/2, 0.01, cabinetIn),
		solid(rays.Box, Point{drawerX - drawerHalf - 0.01, middle, 0.175}, 0.01, drawerDepth/2, 0.025, cabinetIn),
		solid(rays.Box, Point{drawerX + drawerHalf + 0.01, middle, 0.175}, 0.01, drawerDepth/2, 0.025, cabinetIn),
		solid(rays.Box, Point{drawerX, front + 0.02, drawerZ}, 0.06, 0.008, 0.012, handle),
	}
}
