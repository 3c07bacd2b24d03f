package navigation

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"vagen/env/internal/rays"
	"vagen/internal/rng"
)

// generateRoom generates a room of a kind.
func generateRoom(name string, kind room, r *rand.Rand) *Scene {
	plan := catalog.Rooms[kind]
	side := func() float64 {
		return math.Round((plan.Side[0]+r.Float64()*(plan.Side[1]-plan.Side[0]))/gridSize) * gridSize
	}
	s := newScene(name, kind, rays.Vec{}, rays.V(side(), 0, side()), r)
	s.fill(plan.Always, plan.Often, r, func() bool { return true })
	s.decorate(r)
	return s
}

// fill places furniture in a room. A piece is kept only if ok returns true for the
// room with it.
func (s *Scene) fill(always, often []string, r *rand.Rand, ok func() bool) {
	names := slices.Clone(always)
	for _, n := range often {
		if r.IntN(2) == 0 {
			names = append(names, n)
		}
	}
	for _, n := range names {
		k := kinds[n]
		for range 30 {
			center, turns := s.drawPosition(k, r)
			if !s.fits(k, center, turns) {
				continue
			}
			before := s.mark()
			s.addObject(k, center, turns, drawWord(r, k.Tints))
			if s.connected() && ok() {
				break
			}
			s.undo(before)
		}
	}
}

// drawPosition draws a position for a piece of furniture: with its back to a wall, or anywhere.
func (s *Scene) drawPosition(k *kind, r *rand.Rand) (center rays.Vec, turns int) {
	turns = r.IntN(4)
	w, d := k.footprint(turns)
	along := func(lo, hi, size float64) float64 { return lo + size/2 + r.Float64()*(hi-lo-size) }
	center = rays.V(along(s.lo.X, s.hi.X, w), k.H/2, along(s.lo.Z, s.hi.Z, d))
	if k.Place == onWall {
		const gap = 0.01
		switch turns { // the front faces away from the wall
		case 0:
			center.Z = s.lo.Z + d/2 + gap
		case 1:
			center.X = s.lo.X + w/2 + gap
		case 2:
			center.Z = s.hi.Z - d/2 - gap
		case 3:
			center.X = s.hi.X - w/2 - gap
		}
	}
	return center, turns
}

// fits reports whether a piece is inside the room and does not touch others.
func (s *Scene) fits(k *kind, center rays.Vec, turns int) bool {
	w, d := k.footprint(turns)
	if center.X-w/2 < s.lo.X || center.X+w/2 > s.hi.X || center.Z-d/2 < s.lo.Z || center.Z+d/2 > s.hi.Z {
		return false
	}
	return s.free(center, w, d, 0.06, math.Inf(-1))
}

// free reports whether a footprint is a gap away from the objects that begin at a height or above it.
func (s *Scene) free(center rays.Vec, w, d, gap, height float64) bool {
	for i := range s.objects {
		o := &s.objects[i]
		if o.Center[1]-o.Size[1]/2 >= height && math.Abs(o.Center[0]-center.X) < (o.Size[0]+w)/2+gap &&
			math.Abs(o.Center[2]-center.Z) < (o.Size[2]+d)/2+gap {
			return false
		}
	}
	return true
}

// connected reports whether the free cells are connected, except for small corners.
func (s *Scene) connected() bool {
	seen := make([]bool, len(s.blocked))
	total, largest := 0, 0
	var stack []int
	for i := range s.blocked {
		if s.blocked[i] || seen[i] {
			continue
		}
		size := 0
		seen[i] = true
		for stack = append(stack[:0], i); len(stack) > 0; size++ {
			c := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			for _, n := range [4]int{c - 1, c + 1, c - s.cols, c + s.cols} {
				// The room has a blocked frame, so neighbours never wrap to the next row.
				if n >= 0 && n < len(seen) && !s.blocked[n] && !seen[n] {
					seen[n] = true
					stack = append(stack, n)
				}
			}
		}
		total, largest = total+size, max(largest, size)
	}
	return largest > 0 && total-largest <= total/20
}

// decorate puts objects on furniture, each type at most once.
func (s *Scene) decorate(r *rand.Rand) {
	var things []*kind
	for i := range catalog.Objects {
		if k := &catalog.Objects[i]; k.Place == onTop && slices.Contains(k.Rooms, s.room) && s.count(k.Name) == 0 {
			things = append(things, k)
		}
	}
	r.Shuffle(len(things), func(i, j int) { things[i], things[j] = things[j], things[i] })
	for i, n := 0, len(s.objects); i < n; i++ {
		under := s.objects[i]
		k := kindOf(under.Type)
		if k.Top == 0 {
			continue
		}
		for range 1 + r.IntN(3) {
			if things = s.putOnSurface(things, under, k.Top, r); len(things) == 0 {
				return
			}
		}
	}
}

// putOnSurface puts the first object that fits onto a surface and returns the others.
func (s *Scene) putOnSurface(things []*kind, under Object, top float64, r *rand.Rand) []*kind {
	for i, k := range things {
		turns := s.outward(under)
		w, d := k.footprint(turns)
		free := [2]float64{under.Size[0] - w - 0.06, under.Size[2] - d - 0.06}
		if free[0] < 0 || free[1] < 0 {
			continue
		}
		for range 12 {
			at := rays.V(under.Center[0]+(r.Float64()-0.5)*free[0], top+k.H/2, under.Center[2]+(r.Float64()-0.5)*free[1])
			if s.free(at, w, d, 0.03, top-0.05) {
				s.addObject(k, at, turns, drawWord(r, k.Tints))
				return slices.Delete(slices.Clone(things), i, i+1)
			}
		}
	}
	return things
}

// outward is the turn by which an object on furniture faces the room: away from the
// nearest wall.
func (s *Scene) outward(o Object) int {
	best, turns := math.Inf(1), 0
	for i, d := range [4]float64{o.Center[2] - s.lo.Z, o.Center[0] - s.lo.X, s.hi.Z - o.Center[2], s.hi.X - o.Center[0]} {
		if d < best {
			best, turns = d, i
		}
	}
	return turns
}

// substituteScene generates a substitute room for an unavailable scene and its tasks.
func substituteScene(name string, tasks []Task) (*Scene, error) {
	h := fnv.New64a()
	h.Write([]byte(name))
	r := rng.New(h.Sum64(), rng.Level)
	lo, hi := rays.V(math.Inf(1), 0, math.Inf(1)), rays.V(math.Inf(-1), 0, math.Inf(-1))
	cover := func(x, z, margin float64) {
		lo.X, lo.Z = min(lo.X, x-margin), min(lo.Z, z-margin)
		hi.X, hi.Z = max(hi.X, x+margin), max(hi.Z, z+margin)
	}
	for _, t := range tasks {
		k := kindOf(t.TargetType)
		cover(t.Start.Position.X, t.Start.Position.Z, 1+r.Float64())
		cover(t.Target.X, t.Target.Z, max(k.W, k.D)/2+0.05+0.5*r.Float64())
	}
	if hi.X-lo.X > maxSpan || hi.Z-lo.Z > maxSpan {
		return nil, fmt.Errorf("navigation: %w: scene %q: its tasks span %.1f by %.1f m, must be at most %d", ErrTask, name,
			hi.X-lo.X, hi.Z-lo.Z, maxSpan)
	}
	kind := substituteKind(name, r)
	s := newScene(name, kind, lo, hi, r)
	solvable := func() bool {
		for _, t := range tasks {
			if p := t.Start.Position; !s.reachable(p.X, p.Z, t.Target.X, t.Target.Z, math.MaxInt) {
				return false
			}
		}
		return true
	}
	placed := make(map[string]bool)
	for _, t := range tasks {
		if key := fmt.Sprint(t.TargetType, t.Target); !placed[key] {
			placed[key] = true
			s.placeTarget(t, r, solvable)
		}
	}
	if !solvable() {
		return nil, fmt.Errorf("navigation: %w: scene %q: a start is outside the room or has no path to its target", ErrTask,
			name)
	}
	// The tasks' targets must be unique in their type.
	others := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return s.count(n) > 0 })
	}
	plan := catalog.Rooms[kind]
	s.fill(others(plan.Always), others(plan.Often), r, solvable)
	s.decorate(r)
	return s, nil
}

// substituteKind returns the kind of room by AI2-THOR's numbering: floor plans below 200 are kitchens, then
// living rooms, bedrooms from 300 and bathrooms from 400.
func substituteKind(name string, r *rand.Rand) room {
	var n int
	if _, err := fmt.Sscanf(name, "FloorPlan%d", &n); err == nil {
		return anywhere[min(max(n/100-1, 0), 3)]
	}
	return anywhere[r.IntN(4)]
}

// placeTarget puts the target of a task at the task's position, on a block if it would
// float. Objects that would block the path of a task are left out, the target's own
// body last: it is then visible but can be walked through.
func (s *Scene) placeTarget(t Task, r *rand.Rand, ok func() bool) {
	k := kindOf(t.TargetType)
	center := rays.V(t.Target.X, max(t.Target.Y, k.H/2), t.Target.Z)
	tint := drawWord(r, k.Tints)
	bottom := center.Y - k.H/2
	for _, width := range []float64{0.6, 0.4, 0.25} {
		if bottom < 0.15 || bottom > 1.2 {
			break
		}
		base := kind{Name: "Block", W: max(width, k.W+0.02), H: bottom, D: max(width, k.D+0.02), Tints: "beige",
			Parts: []part{{rays.Box, [6]float64{0, 0, 0, 1, 0.95, 1}, own},
				{rays.Box, [6]float64{-0.01, 0.95, -0.01, 1.01, 1, 1.01}, ownDark}}}
		before := s.mark()
		s.addObject(&base, rays.V(center.X, bottom/2, center.Z), 0, "beige")
		if ok() {
			break
		}
		s.undo(before)
	}
	blocked := slices.Clone(s.blocked)
	s.addObject(k, center, 0, tint)
	if !ok() {
		s.blocked = blocked
	}
}
