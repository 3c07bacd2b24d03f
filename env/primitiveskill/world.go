package primitiveskill

import (
	"cmp"
	"image/color"
	"math"
	"slices"
)

// Point is a position in metres: x towards the eye, y to its right, z up.
type Point struct{ X, Y, Z float64 }

// apart is the horizontal distance of two positions.
func (p Point) apart(q Point) float64 { return math.Hypot(p.X-q.X, p.Y-q.Y) }

// Sizes in metres.
const (
	cubeHalf    = 0.02
	appleRadius = 0.037
	reach       = 0.02 // from the gripper to the centre of an object it can pick
	fingers     = 0.01 // from the gripper's centre to a pushed object
)

// body is an object that can be moved.
type body struct {
	name  string
	at    Point
	yaw   float64 // degrees, only drawn
	half  float64 // of its height and width
	ball  bool
	color color.RGBA
}

func (b *body) top() float64    { return b.at.Z + b.half }
func (b *body) bottom() float64 { return b.at.Z - b.half }

// drawer is a drawer that opens towards larger y. Its front is closed at
// closedFront.
type drawer struct {
	open float64 // distance, from 0 to travel
}

// The drawer's place and sizes.
const (
	travel      = 0.5
	closedFront = -0.63
	drawerX     = -0.5
	drawerZ     = 0.2
	drawerDepth = 0.34  // inside, along y
	drawerHalf  = 0.15  // inside, along x
	drawerFloor = 0.16  // height
	frontHalf   = 0.2   // of the front, along x
	frontLow    = 0.1   // lower edge of the front
	frontHigh   = 0.35  // upper edge
	frontGap    = 0.02  // thickness
	pointInside = -0.17 // of the drawer's point, from the front
)

// front is the y of the drawer's front, where its handle is.
func (d *drawer) front() float64 { return closedFront + d.open }

// holds reports whether something above a position falls into the drawer.
func (d *drawer) holds(x, y float64) bool {
	return math.Abs(x-drawerX) <= drawerHalf && y <= d.front()-frontGap && y >= d.front()-drawerDepth
}

// world is a table with its objects, and the arm.
type world struct {
	bodies  []body
	held    int // index of the body in the gripper, −1 for none
	gripper Point
	home    Point
	drawer  *drawer // nil without one
}

func (w *world) clone() *world {
	c := *w
	c.bodies = slices.Clone(w.bodies)
	if w.drawer != nil {
		d := *w.drawer
		c.drawer = &d
	}
	return &c
}

// body returns a body by its name.
func (w *world) body(name string) *body {
	for i := range w.bodies {
		if w.bodies[i].name == name {
			return &w.bodies[i]
		}
	}
	return nil
}

// holding reports whether the gripper holds a body.
func (w *world) holding(name string) bool { return w.held >= 0 && w.bodies[w.held].name == name }

// pick takes the nearest body at a position.
func (w *world) pick(p Point) {
	w.release()
	best := math.Inf(1)
	found := -1
	for i := range w.bodies {
		b := &w.bodies[i]
		away := b.at.apart(p)
		if away <= reach+1e-9 && math.Abs(b.at.Z-p.Z) <= reach+1e-9 && away < best && !w.covered(i) {
			best, found = away, i
		}
	}
	if found < 0 {
		return
	}
	w.held = found
	w.bodies[found].at, w.bodies[found].yaw = w.home, 0
}

// covered reports whether another body is on top of a body.
func (w *world) covered(i int) bool {
	b := &w.bodies[i]
	for j := range w.bodies {
		if o := &w.bodies[j]; j != i && j != w.held && w.over(o, b) && o.at.Z > b.at.Z && o.bottom() < b.top()+0.01 {
			return true
		}
	}
	return false
}

// over reports whether two bodies overlap seen from above.
func (w *world) over(a, b *body) bool {
	const slack = 0.002
	return max(math.Abs(a.at.X-b.at.X), math.Abs(a.at.Y-b.at.Y)) < a.half+b.half-slack
}

// place releases the held body above a position.
func (w *world) place(p Point) {
	if w.held < 0 {
		return
	}
	i := w.held
	w.held = -1
	w.bodies[i].at = p
	w.comeToRest(i)
}

// release drops the held body at the arm's home position.
func (w *world) release() {
	if w.held >= 0 {
		w.place(w.home)
	}
}

// comeToRest brings a falling body to rest: on the highest body below whose centre is under
// its own, otherwise on the ground or in the drawer. A body that hits another one away
// from its centre slides off.
func (w *world) comeToRest(i int) {
	b := &w.bodies[i]
	for range len(w.bodies) + 1 {
		under := -1
		for j := range w.bodies {
			if o := &w.bodies[j]; j != i && j != w.held && w.over(b, o) && (under < 0 || o.top() > w.bodies[under].top()) {
				under = j
			}
		}
		if under < 0 {
			break
		}
		o := &w.bodies[under]
		dx, dy := b.at.X-o.at.X, b.at.Y-o.at.Y
		if max(math.Abs(dx), math.Abs(dy)) <= o.half && !o.ball {
			b.at.Z = o.top() + b.half
			return
		}
		aside := b.half + o.half + 0.001
		if math.Abs(dx) >= math.Abs(dy) {
			b.at.X = o.at.X + math.Copysign(aside, dx)
		} else {
			b.at.Y = o.at.Y + math.Copysign(aside, dy)
		}
	}
	b.at.Z = w.ground(b.at.X, b.at.Y) + b.half
}

func (w *world) ground(x, y float64) float64 {
	if w.drawer != nil && w.drawer.holds(x, y) {
		return drawerFloor
	}
	return 0
}

// dropUnsupported lets all unsupported bodies fall, lowest first.
func (w *world) dropUnsupported() {
	order := make([]int, 0, len(w.bodies))
	for i := range w.bodies {
		if i != w.held {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(w.bodies[i].at.Z, w.bodies[j].at.Z) })
	for k, i := range order {
		b := &w.bodies[i]
		support := w.ground(b.at.X, b.at.Y)
		for _, j := range order[:k] {
			if o := &w.bodies[j]; w.over(b, o) && o.at.Z < b.at.Z {
				support = max(support, o.top())
			}
		}
		b.at.Z = support + b.half
	}
}

// push moves the gripper from one position to another.
func (w *world) push(from, to Point) {
	w.release()
	dx, dy := to.X-from.X, to.Y-from.Y
	length := math.Hypot(dx, dy)
	if length < 1e-6 {
		return
	}
	sweep := stroke{from: from, ux: dx / length, uy: dy / length, length: length}
	if w.drawer != nil {
		w.slide(from, to)
	}
	moved := make([]float64, len(w.bodies))
	for i := range w.bodies {
		moved[i] = sweep.shift(&w.bodies[i])
	}
	for i := range moved {
		if by := moved[i]; by > 0 {
			moved[i] = 0
			w.moveWithLoad(i, sweep, by, moved)
		}
	}
	w.dropUnsupported()
}

// stroke is the path of the gripper over the table.
type stroke struct {
	from   Point
	ux, uy float64 // direction
	length float64
}

// shift returns the distance by which a stroke moves a body.
func (s stroke) shift(b *body) float64 {
	if math.Abs(b.at.Z-s.from.Z) > b.half+fingers {
		return 0
	}
	x, y := b.at.X-s.from.X, b.at.Y-s.from.Y
	if math.Hypot(x, y) <= b.half { // the open gripper came down over it
		return s.length
	}
	along, aside := x*s.ux+y*s.uy, math.Abs(y*s.ux-x*s.uy)
	contact := b.half + fingers
	if along <= 0 || along >= s.length+contact || aside > b.half+fingers {
		return 0
	}
	return s.length + contact - along
}

// moveWithLoad moves a body with the bodies on top of it, and pushes those it collides with.
// moved holds the remaining distances of the stroke; bodies on top move along instead.
func (w *world) moveWithLoad(i int, s stroke, by float64, moved []float64) {
	was := w.bodies[i]
	w.bodies[i].at.X += s.ux * by
	w.bodies[i].at.Y += s.uy * by
	b := &w.bodies[i]
	for j := range w.bodies {
		o := &w.bodies[j]
		switch {
		case j == i:
		case w.over(o, &was) && o.at.Z > was.at.Z: // lies on it
			o.at.X += s.ux * by
			o.at.Y += s.uy * by
			moved[j] = 0
		case w.over(o, b) && math.Abs(o.at.Z-b.at.Z) < b.half:
			gap := (o.at.X-b.at.X)*s.ux + (o.at.Y-b.at.Y)*s.uy
			// Along a diagonal, corners that overlap may be far enough apart already.
			if ahead := o.half + b.half + 0.001 - gap; gap >= 0 && ahead > 0 && by < maxMove {
				w.moveWithLoad(j, s, min(ahead, maxMove), moved)
			}
		}
	}
}

// maxMove limits chains of bodies that push each other.
const maxMove = 1

// slide moves the drawer's front when the gripper passes it: from outside it closes the
// drawer, from inside it opens it.
func (w *world) slide(from, to Point) {
	d := w.drawer
	if max(math.Abs(from.X-drawerX), math.Abs(to.X-drawerX)) > frontHalf || min(from.Z, to.Z) < frontLow ||
		max(from.Z, to.Z) > frontHigh {
		return
	}
	front := d.front()
	closing := from.Y >= front && to.Y < front
	opening := from.Y < front && to.Y > front
	if !closing && !opening {
		return
	}
	was := d.open
	inside := make([]bool, len(w.bodies))
	for i := range w.bodies {
		inside[i] = d.holds(w.bodies[i].at.X, w.bodies[i].at.Y) && w.bodies[i].at.Z < frontHigh
	}
	d.open = min(max(to.Y-closedFront, 0), travel)
	for i := range w.bodies {
		if inside[i] {
			w.bodies[i].at.Y += d.open - was
		}
	}
}
