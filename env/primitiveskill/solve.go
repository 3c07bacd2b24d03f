package primitiveskill

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"vagen/env/internal/scripts"
)

// Player chooses the next skill. Players see the world itself, not only the agent's
// observation. They must not change e.
type Player func(r *rand.Rand, e *Env, w World) Skill

// World is a copy of a world for a player's planning.
type World struct{ w *world }

// Position returns the position of an object or a target, named as in a State; the zero Point for another name.
func (w World) Position(key string) Point {
	if w.w == nil { // of a zero value
		return Point{}
	}
	return w.w.position(key)
}

// high is a height from which objects are released: z may be larger than needed.
const high = 0.12

// Solve returns the next skill of a known solution, from any state of the world.
func Solve(_ *rand.Rand, e *Env, world World) Skill {
	if e == nil || world.w == nil { // of a zero value
		return Skill{}
	}
	w := world.w
	switch e.o.Task {
	case AlignTwoCube:
		for _, name := range []string{"red_cube", "green_cube"} {
			if b := w.body(name); math.Abs(b.at.X) > 0.005 || w.holding(name) {
				return w.pickOrPlace(name, w.freeLinePosition(name))
			}
		}
	case PlaceTwoCube:
		if b := w.body("red_cube"); b.at.apart(leftTarget) > 0.02 || w.holding("red_cube") {
			return w.pickOrPlace("red_cube", leftTarget)
		}
		return w.pickOrPlace("green_cube", rightTarget)
	case StackThreeCube:
		if v := e.task.judge(w); !v.flagged("stage1_success") {
			return w.pickOrPlace("red_cube", w.body("green_cube").at)
		}
		return w.pickOrPlace("purple_cube", w.body("red_cube").at)
	case PutAppleInDrawer:
		point := w.position("drawer_position")
		if v := e.task.judge(w); !v.flagged("stage1_success") {
			if w.drawer.open < 0.25 { // too narrow to put something in
				return Skill{Name: Push, At: Point{drawerX, w.drawer.front() - 0.03, drawerZ}, To: Point{drawerX, -0.3, drawerZ}}
			}
			s := w.pickOrPlace("apple", point)
			if s.Name == Place {
				s.At.Z = 0.4
			}
			return s
		}
		return Skill{Name: Push, At: Point{drawerX, w.drawer.front() + 0.08, drawerZ}, To: Point{drawerX, -0.6, drawerZ}}
	}
	return Skill{Name: Push, At: Point{0, 0, high}, To: Point{0, 0, high}}
}

// pickOrPlace picks an object, or places it if it is held.
func (w *world) pickOrPlace(name string, to Point) Skill {
	if w.holding(name) {
		return Skill{Name: Place, At: Point{to.X, to.Y, high}}
	}
	return Skill{Name: Pick, At: w.body(name).at}
}

// freeLinePosition returns a position for a cube on the line x = 0, close to its own y and away from
// other cubes.
func (w *world) freeLinePosition(name string) Point {
	b := w.body(name)
	y := b.at.Y
	if w.holding(name) {
		y = 0
	}
	for _, shift := range []float64{0, 0.06, -0.06, 0.12, -0.12, 0.18, -0.18} {
		p := Point{0, min(max(y+shift, -0.19), 0.19), cubeHalf}
		free := true
		for i := range w.bodies {
			o := &w.bodies[i]
			if o.name != name && i != w.held && math.Abs(o.at.X) < 0.05 && math.Abs(o.at.Y-p.Y) < 0.05 {
				free = false
			}
		}
		if free {
			return p
		}
	}
	return Point{0, y, cubeHalf}
}

func (v verdict) flagged(name string) bool { return slices.Contains(v.flags, flag{name, true}) }

// Script writes the response with which a player would play the current turn, with at
// most the given number of skills, in the environment's format. Its statements about the
// state before and after are true. The environment does not change. Script returns ""
// before Reset.
func (e *Env) Script(r *rand.Rand, p Player, skills int) string {
	if e.world == nil {
		return ""
	}
	w := e.world.clone()
	var list []string
	for range skills {
		s := p(r, e, World{w.clone()})
		text := s.String()
		if read, ok := e.task.parseSkill(text); ok {
			w.do(read)
		}
		list = append(list, text)
		if e.task.judge(w).success {
			break
		}
	}
	say := State.Sentence
	if strings.HasSuffix(e.o.PromptFormat, "_structured") {
		say = State.JSON
	}
	return scripts.Compose(e.Parser(), "run", list, e.o.ActionSep,
		func() string { return say(e.task.state(e.world)) },
		func() string { return say(e.task.state(w)) })
}
