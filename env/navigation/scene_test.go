package navigation

import (
	"encoding/json"
	"fmt"
	"image"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/env/internal/rays"
	"vagen/internal/testkit"
)

// answerOnly are the shortest formats of the rule sets.
var answerOnly = map[env.Rules]string{env.Lite: "no_think", env.Legacy: "no_think", env.Next: "answer"}

// successRate plays a walker in turns of the given number of actions.
func successRate(t *testing.T, o Options, w Walker, episodes, actions int) (float64, error) {
	t.Helper()
	// Neither pictures nor statements affect the result.
	o.RenderMode, o.PromptFormat, o.MaxObjects = env.Text, answerOnly[o.Rules], 0
	o.UseStateReward, o.ObservationReward, o.PredictionReward = false, 0, 0
	e, err := New(o)
	require.NoError(t, err)
	return env.SuccessRate(t.Context(), e, 0, episodes, o.MaxSteps, 1, func(r *rand.Rand) string {
		return e.Script(r, w, actions)
	})
}

// The planner uses the true scene. It reaches every target within the published limits,
// so all tasks can be solved.
func TestEveryGeneratedTaskIsSolvable(t *testing.T) {
	// The other sets share their rooms and starts with these.
	for set, episodes := range map[string]int{"base": 60, "base_train": 120, "long_horizon": 60,
		"long_horizon_train": 120} {
		for _, rules := range []env.Rules{env.Lite, env.Legacy, env.Next} {
			o := DefaultOptions(rules)
			o.EvalSet = set
			for name, w := range map[string]Walker{"shortest path": ShortestPath, "facing": Facing} {
				rate, err := successRate(t, o, w, episodes, o.MaxActions)
				require.NoError(t, err)
				require.Equal(t, 1.0, rate, "%s %s %s", set, rules, name)
			}
		}
	}
}

func TestReferencePlayersAreOrdered(t *testing.T) {
	o := DefaultOptions(env.Lite)
	o.EvalSet = "base_train"
	rate := func(w Walker) float64 {
		v, err := successRate(t, o, w, 200, 5)
		require.NoError(t, err)
		t.Logf("%.3f", v)
		return v
	}
	_, err := successRate(t, o, Random, 1, 6)
	require.ErrorContains(t, err, "turns of 6 actions")
	random, bee, noisy := rate(Random), rate(Beeline), rate(Noisy(0.5, ShortestPath))
	require.Less(t, random, 0.25, "random actions do not reach the target")
	require.True(t, bee > 0.4 && bee < 0.9, "furniture obstructs many paths, but not all")
	require.True(t, noisy > random && noisy < 1)
}

func TestRoomsOfTrainingAndEvaluationDiffer(t *testing.T) {
	seen := make(map[string]string)
	for _, split := range []string{evaluation, training} {
		for i := range 60 {
			g, err := generate(split, i, nil)
			require.NoError(t, err)
			again, err := generate(split, i, nil)
			require.NoError(t, err)
			require.Equal(t, g, again, "equal names give equal rooms")
			key := fmt.Sprint(g.scene.objects, g.scene.lo, g.scene.hi, g.start)
			require.Empty(t, seen[key])
			seen[key] = g.scene.name
			require.Equal(t, 1, g.scene.count(g.scene.objects[g.target].Type), "the target is the only one of its type")
			require.True(t, g.scene.Free(g.start.X, g.start.Z))
			require.True(t, g.scene.connected(), g.scene.name)
		}
	}
}

func TestSetsAskForTheSameTargetsInOtherWords(t *testing.T) {
	words := make(map[string]bool)
	for _, style := range styles {
		set, err := builtIn(style, nil)
		require.NoError(t, err)
		require.Equal(t, 60, set.Len())
		base, _, err := generatedSet{style: "base", split: evaluation}.At(7)
		require.NoError(t, err)
		task, scene, err := set.At(7)
		require.NoError(t, err)
		require.Equal(t, base.TargetID, task.TargetID)
		require.Equal(t, base.Start.Position, task.Start.Position)
		require.False(t, words[task.Instruction], task.Instruction)
		words[task.Instruction] = true
		names := strings.Contains(task.Instruction, Spoken(task.TargetType))
		require.Equal(t, style != "common_sense" && style != "visual_appearance", names, "%s: %s", style, task.Instruction)
		target := -1
		for i, o := range scene.objects {
			if o.Type == task.TargetType {
				target = i
			}
		}
		eye := rays.Eye{At: rays.V(task.Start.Position.X, eyeHeight, task.Start.Position.Z), Yaw: task.Start.Rotation,
			Pitch: 0, FOV: 100}
		require.Equal(t, style != "long_horizon", scene.visible(eye, target), style)
	}
	_, err := builtIn("base_test", nil)
	require.ErrorIs(t, err, ErrTask)
}

// TestAgentsStartWithTheViewOfTheOriginalsFiles: in the 60 tasks of each of EmbodiedBench's files, the target is at
// most 50 degrees from ahead, in long_horizon at least 130. VAGEN's script of the training files
// draws the rotation.
func TestAgentsStartWithTheViewOfTheOriginalsFiles(t *testing.T) {
	const tasks = 60
	off := func(set string) (counts [4]int) {
		s, err := builtIn(set, nil)
		require.NoError(t, err)
		for i := range tasks {
			task, _, err := s.At(i)
			require.NoError(t, err)
			p, q := task.Start.Position, task.Target
			ahead := math.Atan2(q.X-p.X, q.Z-p.Z) * 180 / math.Pi
			turn := math.Remainder(task.Start.Rotation-ahead, 360)
			counts[int(math.Round(turn/90)+4)%4]++
		}
		return counts
	}
	for _, style := range styles[:4] {
		require.Equal(t, [4]int{tasks, 0, 0, 0}, off(style), style)
		require.Equal(t, [4]int{tasks, 0, 0, 0}, off(style+"_open"), style)
		train := off(style + "_train")
		for _, n := range train {
			require.Greater(t, n, tasks/8, "%s_train: %v", style, train)
		}
		require.Equal(t, off("base_train"), train, "sets of one kind share their starts")
	}
	for _, set := range []string{"long_horizon", "long_horizon_train", "long_horizon_open"} {
		require.Equal(t, [4]int{0, 0, tasks, 0}, off(set), set)
	}
}

func TestEveryKindHasWhatItNeeds(t *testing.T) {
	for _, k := range catalog.Objects {
		require.NotEmpty(t, k.Parts, k.Name)
		require.NotEmpty(t, k.Purpose, k.Name)
		require.NotEmpty(t, k.Look, k.Name)
		require.NotEmpty(t, k.Rooms, k.Name)
		for _, r := range k.Rooms {
			require.Contains(t, catalog.Rooms, r, k.Name)
		}
		require.Contains(t, []place{onTop, onWall, "floor"}, k.Place, k.Name)
		require.Positive(t, k.W*k.H*k.D, k.Name)
		for _, tint := range strings.Fields(k.Tints) {
			require.Contains(t, catalog.Tints, tint, k.Name)
		}
		for _, p := range k.Parts {
			require.True(t, p.Box[0] < p.Box[3] && p.Box[1] < p.Box[4] && p.Box[2] < p.Box[5], "%s: %v", k.Name, p)
			_, known := catalog.Palette[p.Ink]
			require.True(t, known || p.Ink == own || p.Ink == ownDark, k.Name)
		}
	}
	for room, plan := range catalog.Rooms {
		for _, name := range slices.Concat(plan.Always, plan.Often) {
			require.Contains(t, kinds, name, room)
		}
	}
	require.Equal(t, kindOf("Quux"), kindOf("Quux"))
	require.NotEqual(t, kindOf("Quux").Parts, kindOf("Quuy").Parts)
	for name, want := range map[string]string{"GarbageCan": "garbage can", "TVStand": "tv stand", "CD": "cd",
		"Bed": "bed"} {
		require.Equal(t, want, Spoken(name))
	}
}

// Without furniture the shortest path has the expected length.
func TestRoutesAreShortest(t *testing.T) {
	s := newScene("empty", "living room", rays.Vec{}, rays.V(8, 0, 8), rand.New(rand.NewPCG(1, 1)))
	for _, c := range []struct{ tx, tz, step, near, want float64 }{
		{6.05, 1.05, 0.5, 0.1, 10}, {1.05, 6.05, 0.5, 0.1, 10}, {5.05, 5.05, 0.5, 0.1, 16}, {4.05, 1.05, 0.5, 1, 4},
		{1.05, 1.05, 0.5, 0, 0}, {4.05, 5.05, 0.5, 1, 12},
	} {
		way, ok := s.Route(1.05, 1.05, c.tx, c.tz, c.step, c.near)
		require.True(t, ok)
		require.Len(t, way, int(c.want), "%v", c)
	}
	_, ok := s.Route(1.05, 1.05, 20, 20, 0.5, 1)
	require.False(t, ok, "outside of the room")
	_, ok = s.Route(-1, 1, 2, 2, 0.5, 1)
	require.False(t, ok, "from within a wall")
	_, ok = s.Route(1.05, 1.05, 2, 2, 1e-4, 0.1)
	require.False(t, ok, "an infinite grid")
	// A barrier from wall to wall.
	s.block(0, 3, 8, 3.2)
	_, ok = s.Route(1.05, 1.05, 1.05, 6.05, 0.5, 0.5)
	require.False(t, ok)
}

func TestPicturesShowThingsWhereTheyAre(t *testing.T) {
	s := newScene("empty", "living room", rays.V(-4, 0, -4), rays.V(4, 0, 4), rand.New(rand.NewPCG(1, 1)))
	ball := []part{{rays.Globe, [6]float64{0, 0, 0, 1, 1, 1}, own}}
	s.addObject(&kind{Name: "Ball", W: 0.4, H: 0.4, D: 0.4, Parts: ball}, rays.V(1, 1.2, 2), 0, "red")
	reds := func(x, z, yaw, horizon float64) (n int, cx, cy float64) {
		img := s.Render(x, z, yaw, horizon, 100, 200)
		for py := range 200 {
			for px := range 200 {
				if c := img.RGBAAt(px, py); c.R > 100 && c.G < 80 && c.B < 80 {
					n++
					cx, cy = cx+float64(px)+0.5, cy+float64(py)+0.5
				}
			}
		}
		return n, cx / float64(max(n, 1)), cy / float64(max(n, 1))
	}
	for _, c := range []struct{ yaw, horizon float64 }{{0, 0}, {0, 30}, {90, 0}, {0, -30}} {
		n, x, y := reds(0, 0, c.yaw, c.horizon)
		px, py, ahead := rays.Eye{At: rays.V(0, eyeHeight, 0), Yaw: c.yaw, Pitch: c.horizon,
			FOV: 100}.Project(rays.V(1, 1.2, 2))
		if math.Abs(px) > 1 || math.Abs(py) > 1 || ahead < 0 {
			require.Zero(t, n, "%v", c)
			continue
		}
		require.Positive(t, n, "%v", c)
		require.InDelta(t, (px+1)*100, x, 2, "%v", c)
		require.InDelta(t, (1-py)*100, y, 2, "%v", c)
	}
	far, _, _ := reds(0, -3, 0, 0)
	near, _, _ := reds(0, 1, 0, 0)
	require.Greater(t, near, 4*far)
	behind, _, _ := reds(0, 0, 180, 0)
	require.Zero(t, behind)
	views := make(map[string]bool)
	for yaw := 0.0; yaw < 360; yaw += 90 {
		img := s.Render(0, 0, yaw, 0, 100, 64)
		require.Equal(t, img, s.Render(0, 0, yaw, 0, 100, 64))
		views[string(img.Pix)] = true
	}
	require.Len(t, views, 4, "every direction has another view")
}

func TestCamerasSeeWhatIsNotHidden(t *testing.T) {
	s := newScene("empty", "living room", rays.V(-4, 0, -4), rays.V(4, 0, 14), rand.New(rand.NewPCG(1, 1)))
	s.addObject(kinds["Mug"], rays.V(0, 1, 2), 0, "red")
	s.addObject(kinds["Mug"], rays.V(0, 1, 11), 0, "red")
	eye := rays.Eye{At: rays.V(0, eyeHeight, 0), Yaw: 0, Pitch: 0, FOV: 100}
	require.True(t, s.visible(eye, 0))
	require.False(t, s.visible(eye, 1), "more than 10 m away")
	eye.Yaw = 90
	require.False(t, s.visible(eye, 0))
	eye.Yaw = 0
	s.addObject(kinds["Fridge"], rays.V(0, 0.9, 1), 0, "white")
	require.False(t, s.visible(eye, 0), "behind the fridge")
	require.True(t, s.visible(eye, 2))
}

// writeTasks writes a file in the original's format and returns its name.
func writeTasks(t *testing.T, name string, tasks ...Task) string {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"tasks": tasks})
	require.NoError(t, err)
	path := testkit.File(t, name, raw)
	return path
}

func floorPlan(scene, target string, tx, ty, tz, x, z, rotation float64) Task {
	return Task{TargetType: target, TargetID: target + "|", Target: Position{tx, ty, tz}, Scene: scene,
		Instruction: "go to the " + target,
		Start:       Pose{Position: Position{x, 0.9, z}, Rotation: rotation}}
}

func TestFilesOfTheOriginalArePlayedInStandIns(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	types := []string{"Bread", "Pot", "Television", "GarbageCan", "HandTowel", "Toilet", "Spatula"}
	var tasks []Task
	for i := range 40 {
		x, z := r.Float64()*4-2, r.Float64()*4-2
		angle, away := r.Float64()*2*math.Pi, 2+2*r.Float64()
		tasks = append(tasks, floorPlan(fmt.Sprintf("FloorPlan%d", 1+100*(i%5)+i%3), types[i%len(types)],
			x+away*math.Cos(angle), r.Float64()*1.6, z+away*math.Sin(angle), x, z, float64(90*(i%4))))
	}
	path := writeTasks(t, "base.json", tasks...)
	set, err := ReadTasks(path)
	require.NoError(t, err)
	again, err := newTaskSet(tasks, "again")
	require.NoError(t, err)
	for i := range set.Len() {
		task, scene, err := set.At(i)
		require.NoError(t, err)
		require.Equal(t, tasks[i], task)
		require.True(t, scene.Free(task.Start.Position.X, task.Start.Position.Z), "task %d", i)
		found := false
		for _, o := range scene.Objects() {
			found = found || o.Type == task.TargetType && math.Hypot(o.Center[0]-task.Target.X, o.Center[2]-task.Target.Z) < 1e-9
		}
		require.True(t, found, "task %d: the target stands at its place", i)
		_, other, err := again.At(i)
		require.NoError(t, err)
		require.Equal(t, scene.objects, other.objects, "the room follows from the file")
	}
	for _, rules := range []env.Rules{env.Lite, env.Legacy, env.Next} {
		for _, dir := range []string{path, filepath.Dir(path)} {
			o := DefaultOptions(rules)
			o.TaskDir, o.MaxSteps = dir, 60
			rate, err := successRate(t, o, ShortestPath, 40, 5)
			require.NoError(t, err)
			require.Equal(t, 1.0, rate)
		}
	}
	every := DefaultOptions(env.Lite)
	every.TaskDir, every.DownSample = path, 0.3
	e, err := New(every)
	require.NoError(t, err)
	require.Equal(t, 14, e.tasks.Len(), "every third task of forty")
	envtest.Reset(t, e, 1)
	require.Equal(t, tasks[3], e.Task())
}

func TestGeneratedScenesAreFoundByName(t *testing.T) {
	task, scene, err := generatedSet{style: "base", split: training}.At(11)
	require.NoError(t, err)
	set, err := newTaskSet([]Task{task}, "mine")
	require.NoError(t, err)
	_, found, err := set.At(0)
	require.NoError(t, err)
	require.Equal(t, scene, found)
	limited := generatedSet{style: "base", split: open, targets: []string{"Sofa", "Fridge", "Sofa"}}
	for i := range 8 {
		task, scene, err := limited.At(i)
		require.NoError(t, err)
		set, err := newTaskSet([]Task{task}, "mine")
		require.NoError(t, err)
		_, found, err := set.At(0)
		require.NoError(t, err)
		require.Equal(t, scene, found, "%s: the room has the target", task.Scene)
	}
	for _, name := range []string{"room-eval-60", "room-eval--1", "room-eval-07", "room-test-1", "room-eval", "room-",
		"FloorPlan1", "room-eval-1+", "room-eval-1+Dragon", "room-eval-1+Sofa+Fridge", "room-eval-1+Sofa+Sofa", "eval-1"} {
		_, _, _, ok := generatedName(name)
		require.False(t, ok, name)
	}
}

func TestAFileThatIsPutRightIsReadAgain(t *testing.T) {
	o := DefaultOptions(env.Lite)
	o.TaskDir = filepath.Join(t.TempDir(), "x.json")
	_, err := New(o)
	require.ErrorIs(t, err, ErrTask)
	require.NoError(t, os.Rename(writeTasks(t, "x.json", floorPlan("FloorPlan1", "Mug", 2, 1, 0, 0, 0, 0)), o.TaskDir))
	_, err = New(o)
	require.NoError(t, err)
	testkit.Write(t, o.TaskDir, "{}")
	_, err = New(o)
	require.ErrorIs(t, err, ErrTask, "the changed file has no tasks")
}

func TestBadTasksAreNamed(t *testing.T) {
	good := floorPlan("FloorPlan1", "Mug", 2, 1, 0, 0, 0, 0)
	for want, change := range map[string]func(*Task){
		"task 1: targetObjectType": func(t *Task) { t.TargetType = "" },
		"task 1: scene":            func(t *Task) { t.Scene = "" },
		"agentPose x is 5000":      func(t *Task) { t.Start.Position.X = 5000 },
		"the target is 50.0 m":     func(t *Task) { t.Target.X = 50 },
	} {
		bad := good
		change(&bad)
		_, err := ReadTasks(writeTasks(t, "x.json", good, bad))
		testkit.Error(t, err, ErrTask, want)
	}
	_, err := ReadTasks(writeTasks(t, "x.json"))
	require.ErrorContains(t, err, "no tasks")
	_, err = parseTasks([]byte("{"), "x.json")
	require.ErrorIs(t, err, ErrTask)
	// A scene whose tasks are too far apart is an error when it is loaded.
	far := floorPlan("FloorPlan1", "Mug", 102, 1, 0, 100, 0, 0)
	set, err := newTaskSet([]Task{good, far}, "far")
	require.NoError(t, err)
	_, _, err = set.At(0)
	require.ErrorContains(t, err, "tasks span")
}

func FuzzTasks(f *testing.F) {
	raw, err := json.Marshal(map[string]any{"tasks": []Task{floorPlan("FloorPlan1", "Mug", 2, 1, 0, 0, 0, 45)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(raw))
	f.Add(`{"tasks":[{"scene":"room-eval-3","targetObjectType":"X","target_position":{"x":1e3}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		set, err := parseTasks([]byte(text), "fuzz")
		if err != nil {
			return
		}
		o := DefaultOptions(env.Lite)
		o.Resolution = 32
		e, err := NewFrom(o, set)
		if err != nil {
			t.Fatal(err)
		}
		first, err := e.Reset(t.Context(), 0)
		if err != nil {
			return
		}
		if first.Images[0].Bounds() != image.Rect(0, 0, 32, 32) || strings.Count(first.Text, "<image>") != 1 {
			t.Errorf("%v %q", first.Images[0].Bounds(), first.Text)
		}
		if _, err := e.Step(t.Context(), act(env.Lite, "move_forward|look_down")); err != nil {
			t.Error(err)
		}
	})
}

func TestTasksThatAreNotUTF8AreRefused(t *testing.T) {
	for put, want := range map[string]string{"\xe9": "x.json: line 2, byte 28: 0xe9 is not UTF-8",
		`\ud800`: `x.json: line 2, byte 28: \ud800 is half`} {
		_, err := parseTasks([]byte("{\"tasks\": [\n{\"instruction\": \"go to the "+put+"\"}]}"), "x.json")
		testkit.Error(t, err, ErrTask, want)
	}
	path := writeTasks(t, "x.json")
	testkit.Write(t, path, "\xef\xbb\xbf{}")
	_, err := ReadTasks(path)
	require.ErrorContains(t, err, "found no tasks", "a byte order mark is skipped")
}
