package primitiveskill

import (
	"fmt"
	"image/color"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"vagen/env/internal/rgb"
)

// The tasks, by the names of the original.
const (
	AlignTwoCube     = "AlignTwoCube"
	PlaceTwoCube     = "PlaceTwoCube"
	PutAppleInDrawer = "PutAppleInDrawer"
	StackThreeCube   = "StackThreeCube"
)

// Tasks returns their names.
func Tasks() []string {
	return []string{AlignTwoCube, PlaceTwoCube, PutAppleInDrawer, StackThreeCube}
}

// span is a range of one coordinate in metres.
type span [2]float64

// task is a task with its workspace, start and success test.
type task struct {
	instruction string
	workspace   [3]span
	stateKeys   []string // positions that are shown, in this order
	infoKeys    []string // other information that is shown while success is masked
	start       func(r *rand.Rand) *world
	judge       func(w *world) verdict
}

// verdict is the evaluation of a world by a task.
type verdict struct {
	success bool
	flags   []flag // in the order of the original
	// stages are those that affect the potential. The original looks for names of the
	// form stage_N_success, which only AlignTwoCube has.
	stages []bool
}

// flag is other information, named as the original names it.
type flag struct {
	name  string
	value any // bool, int or text
}

// potential is 10 at success, else twice the number of the highest stage reached,
// counted from 1.
func (v verdict) potential() float64 {
	if v.success {
		return 10
	}
	for i, done := range slices.Backward(v.stages) {
		if done {
			return 2 * float64(i+1)
		}
	}
	return 0
}

var (
	tableTop = [3]span{{-0.10, 0.15}, {-0.2, 0.2}, {0.01, 0.2}}
	red      = rgb.Of(0xdc2424)
	green    = rgb.Of(0x28be3c)
	purple   = rgb.Of(0xc432ce)
)

// Targets of PlaceTwoCube.
var (
	leftTarget   = Point{0.08, -0.1, 0}
	rightTarget  = Point{0.08, 0.1, 0}
	targetRadius = 0.05
)

var tasks = map[string]*task{
	AlignTwoCube: {
		instruction: "Bring both cubes onto the line x = 0, side by side along y. 10 mm off are allowed.",
		workspace:   tableTop, stateKeys: []string{"red_cube_position", "green_cube_position"},
		start: func(r *rand.Rand) *world {
			return table(cubes(r, 0.06, startRange{"red_cube", red, span{0.1, 0.15}, span{-0.2, 0.1}},
				startRange{"green_cube", green, span{0.1, 0.15}, span{0.1, 0.2}}))
		},
		judge: judgeAlign,
	},
	PlaceTwoCube: {
		instruction: "Put the red cube onto the left target and the green cube onto the right target.",
		workspace:   tableTop, stateKeys: []string{"red_cube_position", "green_cube_position", "left_target_position",
			"right_target_position"},
		start: func(r *rand.Rand) *world {
			return table(cubes(r, minDistance, startRange{"red_cube", red, span{-0.1, 0}, span{-0.1, 0.1}},
				startRange{"green_cube", green, span{-0.1, 0}, span{-0.1, 0.1}}))
		},
		judge: judgePlace,
	},
	StackThreeCube: {
		instruction: "Build a tower: the red cube on the green cube, and the purple cube on the red one.",
		workspace:   tableTop, stateKeys: []string{"red_cube_position", "green_cube_position", "purple_cube_position"},
		infoKeys: []string{"cube_size"},
		start: func(r *rand.Rand) *world {
			x, y := tableTop[0], tableTop[1]
			return table(cubes(r, minDistance, startRange{"red_cube", red, x, y}, startRange{"green_cube", green, x, y},
				startRange{"purple_cube", purple, x, y}))
		},
		judge: judgeStack,
	},
	PutAppleInDrawer: {
		instruction: "Put the apple into the drawer, then close the drawer.",
		workspace:   [3]span{{-0.5, -0.1}, {-0.6, 0.2}, {0.01, 0.65}},
		stateKeys:   []string{"apple_position", "drawer_position"}, infoKeys: []string{"drawer_open_value"},
		start: func(r *rand.Rand) *world {
			apple := body{name: "apple", half: appleRadius, ball: true, color: rgb.Of(0xc82824)}
			apple.at = Point{uniform(r, span{-0.15, -0.1}), uniform(r, span{0.1, 0.2}), appleRadius}
			return &world{bodies: []body{apple}, held: -1, home: Point{0, 0, 0.65}, gripper: Point{0, 0, 0.65},
				drawer: &drawer{open: 0.6 * travel}}
		},
		judge: judgeApple,
	},
}

// minDistance is the original sampler's minimum distance between cubes: twice the sum of
// half of a cube's diagonal and 20 mm.
var minDistance = 2 * (cubeHalf*math.Sqrt2 + 0.02)

func table(bodies []body) *world {
	home := Point{0, 0, 0.3}
	return &world{bodies: bodies, held: -1, home: home, gripper: home}
}

func uniform(r *rand.Rand, s span) float64 { return s[0] + r.Float64()*(s[1]-s[0]) }

// startRange is the range of a cube's start position.
type startRange struct {
	name  string
	color color.RGBA
	x, y  span
}

// cubes puts cubes on the table, apart from each other.
func cubes(r *rand.Rand, apart float64, spots ...startRange) []body {
	var list []body
	for _, s := range spots {
		b := body{name: s.name, half: cubeHalf, color: s.color}
		for range 100 {
			b.at = Point{uniform(r, s.x), uniform(r, s.y), cubeHalf}
			if !slices.ContainsFunc(list, func(o body) bool { return o.at.apart(b.at) < apart }) {
				break
			}
		}
		b.yaw = uniform(r, span{-45, 45})
		list = append(list, b)
	}
	return list
}

func judgeAlign(w *world) verdict {
	lies := func(name string) bool {
		b := w.body(name)
		return math.Abs(b.at.X) <= 0.01 && math.Abs(b.at.Z) <= 0.05
	}
	r, g := lies("red_cube"), lies("green_cube")
	return verdict{success: r && g, stages: []bool{r, g}, flags: []flag{
		{"is_red_cube_grasped", w.holding("red_cube")}, {"is_red_cube_at_x0", r},
		{"is_green_cube_grasped", w.holding("green_cube")}, {"is_green_cube_at_x0", g},
		{"stage_0_success", r}, {"stage_1_success", g}, {"success", r && g}}}
}

func judgePlace(w *world) verdict {
	on := func(name string, target Point) bool {
		b := w.body(name)
		return b.at.apart(target) <= targetRadius
	}
	r, g := on("red_cube", leftTarget), on("green_cube", rightTarget)
	rHeld, gHeld := w.holding("red_cube"), w.holding("green_cube")
	success := r && g && !rHeld && !gHeld
	return verdict{success: success, flags: []flag{
		{"is_red_cube_grasped", rHeld}, {"is_green_cube_grasped", gHeld}, {"is_red_cube_in_goal", r},
		{"is_green_cube_in_goal", g},
		{"stage0_success", rHeld}, {"stage1_success", r && !rHeld}, {"stage2_success", r && gHeld}, {"success", success}}}
}

func judgeStack(w *world) verdict {
	on := func(upper, lower string) bool {
		u, l := w.body(upper), w.body(lower)
		return u.at.apart(l.at) < cubeHalf && u.at.Z > l.at.Z+cubeHalf && !w.holding(upper)
	}
	first := on("red_cube", "green_cube")
	success := first && on("purple_cube", "red_cube")
	size := int(math.RoundToEven(2000 * cubeHalf))
	return verdict{success: success, flags: []flag{
		{"is_red_cube_grasped", w.holding("red_cube")}, {"is_green_cube_grasped", w.holding("green_cube")},
		{"is_purple_cube_grasped", w.holding("purple_cube")},
		{"cube_size", fmt.Sprintf("(%d, %d, %d)", size, size, size)},
		{"stage0_success", w.holding("red_cube")}, {"stage1_success", first}, {"stage2_success", w.holding("purple_cube")},
		{"success", success}}}
}

func judgeApple(w *world) verdict {
	apple, point := w.body("apple"), w.position("drawer_position")
	held := w.holding("apple")
	inside := math.Abs(apple.at.X-point.X) <= 0.1 && math.Abs(apple.at.Y-point.Y) <= 0.1 && apple.at.Z >= 0.1 &&
		apple.at.Z <= 0.4
	success := inside && !held && w.drawer.open <= 0.1
	return verdict{success: success, flags: []flag{
		{"is_apple_grasped", held}, {"stage", 0}, {"drawer_open_value", int(math.RoundToEven(1000 * w.drawer.open))},
		{"stage0_success", held}, {"stage1_success", inside && !held}, {"success", success}}}
}

// position returns the position that a state key names.
func (w *world) position(key string) Point {
	switch key {
	case "left_target_position":
		return leftTarget
	case "right_target_position":
		return rightTarget
	case "drawer_position":
		return Point{drawerX, w.drawer.front() + pointInside, drawerZ}
	}
	if b := w.body(strings.TrimSuffix(key, "_position")); b != nil {
		return b.at
	}
	return Point{}
}
