package primitiveskill

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// lay makes a table with cubes named a, b, … at positions in millimetres.
func lay(places ...[3]int) *world {
	var list []body
	for i, p := range places {
		list = append(list, body{name: string(rune('a' + i)), half: cubeHalf,
			at: Point{float64(p[0]) / 1000, float64(p[1]) / 1000, float64(p[2]) / 1000}})
	}
	return table(list)
}

func where(w *world) (list [][3]int) {
	for _, b := range w.bodies {
		list = append(list, [3]int{millimetres(b.at.X), millimetres(b.at.Y), millimetres(b.at.Z)})
	}
	return list
}

func run(t *testing.T, w *world, commands ...string) *world {
	t.Helper()
	for _, c := range commands {
		s, ok := tasks[StackThreeCube].parseSkill(c)
		require.True(t, ok, c)
		w.do(s)
	}
	return w
}

func TestPickTakesWhatIsNear(t *testing.T) {
	for command, held := range map[string]bool{
		"pick(50,50,20)": true, "pick(62,60,30)": true, "pick(70,50,20)": true, "pick(71,50,20)": false,
		"pick(65,65,20)": false,
		"pick(50,50,40)": true, "pick(50,50,41)": false,
	} {
		w := run(t, lay([3]int{50, 50, 20}), command)
		require.Equal(t, held, w.holding("a"), command)
		if held {
			require.Equal(t, [][3]int{{0, 0, 300}}, where(w))
		} else {
			require.Equal(t, [][3]int{{50, 50, 20}}, where(w))
		}
	}
	w := run(t, lay([3]int{50, 50, 20}, [3]int{50, 50, 60}), "pick(50,50,20)")
	require.Equal(t, -1, w.held, "something lies on it")
	w = run(t, w, "pick(50,50,60)")
	require.True(t, w.holding("b"))
	w = run(t, lay([3]int{50, 50, 20}, [3]int{66, 90, 20}), "pick(50,50,20)", "pick(66,90,20)")
	require.True(t, w.holding("b"))
	require.Equal(t, [][3]int{{0, 0, 20}, {0, 0, 300}}, where(w), "the first cube fell at the arm's position")
}

func TestPlacedThingsComeToRest(t *testing.T) {
	for _, c := range golden.Table[[]struct {
		Name, Place string
		Others      [][3]int
		Want        [3]int
	}](t, "places.yaml") {
		w := lay(append([][3]int{{-100, 150, 20}}, c.Others...)...)
		run(t, w, "pick(-100,150,20)", c.Place)
		require.Equal(t, -1, w.held, c.Name)
		require.Equal(t, c.Want, where(w)[0], c.Name)
	}
	w := run(t, lay([3]int{50, 50, 20}), "place(0,0,20)")
	require.Equal(t, [][3]int{{50, 50, 20}}, where(w), "there was nothing to place")
}

func TestPushMovesWhatIsInItsWay(t *testing.T) {
	for _, c := range golden.Table[[]struct {
		Name, Command string
		Cubes, Want   [][3]int
	}](t, "pushes.yaml") {
		require.Equal(t, c.Want, where(run(t, lay(c.Cubes...), c.Command)), c.Name)
	}
	w := run(t, lay([3]int{100, 50, 20}), "pick(100,50,20)", "push(100,100,20,50,100,20)")
	require.Equal(t, [][3]int{{0, 0, 20}}, where(w), "the gripper opens first")
}

func TestTheDrawerFollowsTheGripper(t *testing.T) {
	spec := tasks[PutAppleInDrawer]
	w := spec.start(rand.New(rand.NewPCG(1, 1)))
	do := func(command string) {
		t.Helper()
		s, ok := spec.parseSkill(command)
		require.True(t, ok)
		w.do(s)
	}
	require.InDelta(t, 0.3, w.drawer.open, 1e-12, "60 percent open")
	require.Equal(t, "drawer_open_value: 300", spec.other(w, true))
	do("push(-500,-200,200,-500,-400,200)")
	require.InDelta(t, 0.23, w.drawer.open, 1e-9)
	for _, miss := range []string{"push(-200,-200,200,-200,-600,200)", "push(-500,-200,500,-500,-600,500)",
		"push(-500,-500,200,-500,-600,200)", "push(-500,-100,200,-500,-300,200)"} {
		do(miss)
		require.InDelta(t, 0.23, w.drawer.open, 1e-9, miss)
	}
	do("push(-500,-500,200,-500,200,200)")
	require.InDelta(t, travel, w.drawer.open, 1e-9, "it opens to its stop")
	apple := w.body("apple")
	apple.at = Point{-0.5, -0.3, 0.5}
	w.comeToRest(0)
	require.InDelta(t, drawerFloor+appleRadius, apple.at.Z, 1e-9)
	do("push(-500,0,200,-500,-600,200)")
	require.InDelta(t, 0.03, w.drawer.open, 1e-9)
	require.InDelta(t, -0.3-0.47, apple.at.Y, 1e-9, "a cube inside the drawer moves with it")
	require.Equal(t, [3]int{-500, -770, 200}, spec.state(w)[1].At)
}

// After any skills positions are finite, every object is supported, and none overlap.
func TestThingsStayOnSomething(t *testing.T) {
	for _, name := range Tasks() {
		spec := tasks[name]
		r := rand.New(rand.NewPCG(7, 8))
		for seed := range uint64(40) {
			e := &Env{o: Options{Task: name}, task: spec, world: spec.start(rand.New(rand.NewPCG(1, seed)))}
			for range 25 {
				before := e.world.clone()
				s := clumsy(r, e, World{e.world.clone()})
				e.world.do(s)
				w := e.world
				what := fmt.Sprintf("%s: %v after %v", name, where(w), s)
				for i := range w.bodies {
					b := &w.bodies[i]
					require.False(t, math.IsNaN(b.at.X+b.at.Y+b.at.Z), what)
					require.Less(t, max(math.Abs(b.at.X), math.Abs(b.at.Y), b.at.Z), 2.0, what)
					require.GreaterOrEqual(t, b.bottom(), -1e-9, what)
					if i != w.held {
						require.True(t, supported(w, i), "%s from %v: %s floats", what, where(before), b.name)
					}
				}
			}
		}
	}
}

func supported(w *world, i int) bool {
	b := &w.bodies[i]
	if math.Abs(b.bottom()-w.ground(b.at.X, b.at.Y)) < 1e-6 {
		return true
	}
	for j := range w.bodies {
		if o := &w.bodies[j]; j != i && math.Abs(b.bottom()-o.top()) < 1e-6 && w.over(b, o) {
			return true
		}
	}
	return false
}

func TestStartsAreWhereTheTaskSays(t *testing.T) {
	for _, name := range Tasks() {
		spec := tasks[name]
		seen := make(map[string]bool)
		for seed := range uint64(200) {
			w := spec.start(rand.New(rand.NewPCG(seed, 1)))
			require.False(t, spec.judge(w).success, "%s is not done at the start", name)
			seen[fmt.Sprint(where(w))] = true
			for i, b := range w.bodies {
				for _, o := range w.bodies[:i] {
					require.Greater(t, math.Hypot(b.at.X-o.at.X, b.at.Y-o.at.Y), 0.056, name)
				}
				x, y := spec.workspace[0], spec.workspace[1]
				require.True(t, b.at.X >= x[0] && b.at.X <= x[1] && b.at.Y >= y[0] && b.at.Y <= y[1], "%s: %v", name, b)
				switch name {
				case AlignTwoCube:
					require.True(t, b.at.X >= 0.1 && (b.name == "red_cube") == (b.at.Y < 0.1), "%v", b)
				case PlaceTwoCube:
					require.True(t, b.at.X <= 0 && math.Abs(b.at.Y) <= 0.1, "%v", b)
				case PutAppleInDrawer:
					require.True(t, b.at.X >= -0.15 && b.at.Y >= 0.1, "%v", b)
				}
			}
		}
		require.Greater(t, len(seen), 190, "seeds give different starts")
	}
}

// TestTasksJudgeAsTheOriginals at the limits of success and of the stages.
func TestTasksJudgeAsTheOriginals(t *testing.T) {
	for _, c := range golden.Table[[]struct {
		Task      string
		At        map[string][3]float64 // metres; others are where they start
		Held      string
		Drawer    float64 // 0 is where it starts
		Potential float64 // 10 is success
		Flags     []string
	}](t, "judged.yaml") {
		w := tasks[c.Task].start(rand.New(rand.NewPCG(1, 1)))
		for name, at := range c.At {
			w.body(name).at = Point{at[0], at[1], at[2]}
		}
		if c.Held != "" {
			w.held = slices.IndexFunc(w.bodies, func(b body) bool { return b.name == c.Held })
		}
		if c.Drawer > 0 {
			w.drawer.open = c.Drawer
		}
		v := tasks[c.Task].judge(w)
		require.Equal(t, c.Potential, v.potential(), "%+v", c)
		require.Equal(t, c.Potential == 10, v.success, "%+v", c)
		require.Equal(t, v.success, v.flagged("success"), "%+v", c)
		for _, f := range c.Flags {
			require.True(t, v.flagged(f), "%+v: %s", c, f)
		}
	}
}

func TestCommandsAreReadAsTheOriginalReadsThem(t *testing.T) {
	spec := tasks[AlignTwoCube]
	for text, want := range map[string]string{
		"pick(10,-20,30)":                   "pick(10,-20,30)",
		" PIC\u212a ( 10 , -2e1 ,30.0) now": "pick(10,-20,30)",
		"place(10.4,20.6,30":                "place(10,21,30)",
		"place(1_0,20,30)":                  "place(10,20,30)",
		"\x1c pick\x1f(1,\x1d2\x1e,3)":      "pick(1,2,10)", // which Python's strip and float accept
		"pick(900,-900,0)":                  "pick(150,-200,10)",
		"pick(inf,-1e999,+0)":               "pick(150,-200,10)",
		"push(1,2,30,4,5,60)x(":             "push(1,2,30,4,5,60)",
		"push(-999,0,999,999,0,0)":          "push(-100,0,200,150,0,10)",
		"pick(10,20)":                       "",
		"pick(10,20,30,40)":                 "",
		"pick(10,(20,30)":                   "",
		"pick(10,20,x)":                     "",
		"pick(10,20,)":                      "",
		"pick(nan,20,30)":                   "",
		"pick(0x10,20,30)":                  "",
		"pick 10,20,30":                     "",
		"push(1,2,3)":                       "",
		"grasp(1,2,3)":                      "",
		"":                                  "",
		"(1,2,3)":                           "",
	} {
		s, ok := spec.parseSkill(text)
		require.Equal(t, want != "", ok, text)
		if ok {
			require.Equal(t, want, s.String(), text)
		}
	}
	long := "1" + strings.Repeat("_0", 1000)
	require.Less(t, testing.AllocsPerRun(1, func() { number(long) }), 10.0, "it is not copied for each underscore")
}

func FuzzSkill(f *testing.F) {
	f.Add("pick(1,2,3)", uint8(0))
	f.Add("push(-500,-200,200,-500,-600,200)", uint8(2))
	f.Add("PLACE(1e1,_,inf", uint8(3))
	f.Fuzz(func(t *testing.T, text string, pick uint8) {
		name := Tasks()[pick%4]
		spec := tasks[name]
		s, ok := spec.parseSkill(text)
		if !ok {
			return
		}
		for i, v := range []float64{s.At.X, s.At.Y, s.At.Z} {
			if limit := spec.workspace[i]; v < limit[0]-1e-9 || v > limit[1]+1e-9 || math.IsNaN(v) {
				t.Errorf("%q leaves the workspace: %v", text, s)
			}
		}
		w := spec.start(rand.New(rand.NewPCG(1, 2)))
		w.do(s)
		for i := range w.bodies {
			if i != w.held && !supported(w, i) {
				t.Errorf("%q: %s floats at %v", text, w.bodies[i].name, w.bodies[i].at)
			}
		}
	})
}

func TestOtherNamesHaveNoPosition(t *testing.T) {
	for _, key := range []string{"", "x", "moon_position"} {
		require.Zero(t, World{&world{}}.Position(key), key)
	}
}
