package navigation

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"vagen/env"
	"vagen/env/internal/rays"
	"vagen/internal/nearest"
	"vagen/internal/rng"
)

// The families of generated rooms, which share no room.
const (
	evaluation  = "eval"
	training    = "train"
	open        = "open"
	scenePrefix = "room-"
	targetMark  = "+" // before each type of targets
)

// generatedTasks returns the number of tasks of a set, as in the original's files if these have
// the set.
func generatedTasks(split string) int {
	switch split {
	case training:
		return 1200
	case open:
		return math.MaxInt / 2 // down_sample_ratio adds to it
	}
	return 60
}

// sceneName returns the name from which generatedName finds room i of a family again, if its task has a target of one
// of the given types: another room than without them.
func sceneName(split string, i int, targets []string) string {
	name := fmt.Sprintf("%s%s-%d", scenePrefix, split, i)
	for _, target := range slices.Compact(slices.Sorted(slices.Values(targets))) {
		name += targetMark + target
	}
	return name
}

// styles are the styles of instruction, one per set.
var styles = []string{"base", "common_sense", "complex_instruction", "visual_appearance", "long_horizon"}

// EvalSets returns the names of the built-in sets: base, common_sense,
// complex_instruction, visual_appearance and long_horizon with 60 tasks each, the same with
// _train and 1200, and with _open and a room for every seed. Sets of one kind share their rooms and targets and
// differ in the instructions, and in the view at the start. As in the original's files, the agent faces the target,
// in long_horizon it has its back to it, and in the sets with _train, other than
// long_horizon_train, which the original does not have, it looks in a random one of four directions.
func EvalSets() []string {
	var names []string
	for _, s := range styles {
		names = append(names, s, s+"_"+training, s+"_"+open)
	}
	return names
}

// generatedSet is a built-in set.
type generatedSet struct {
	style, split string
	targets      []string // types of targets; all if empty
}

func builtIn(name string, targets []string) (TaskSet, error) {
	style, split := name, evaluation
	for _, s := range []string{training, open} {
		if cut, ok := strings.CutSuffix(name, "_"+s); ok {
			style, split = cut, s
		}
	}
	if !slices.Contains(styles, style) {
		return nil, fmt.Errorf("navigation: %w: %q is not a built-in set%s; sets are %s",
			ErrTask, name, nearest.Hint(name, EvalSets()), strings.Join(EvalSets(), ", "))
	}
	return generatedSet{style: style, split: split, targets: targets}, nil
}

// Len implements TaskSet.
func (s generatedSet) Len() int { return generatedTasks(s.split) }

// At implements TaskSet.
func (s generatedSet) At(i int) (Task, *Scene, error) {
	g, err := generate(s.split, i, s.targets)
	if err != nil {
		return Task{}, nil, err
	}
	o := g.scene.objects[g.target]
	t := Task{TargetType: o.Type, TargetID: o.ID, Target: Position{o.Center[0], o.Center[1], o.Center[2]},
		Scene: g.scene.name, Hide: []string{},
		Start: Pose{Position: Position{g.start.X, agentHeight, g.start.Z}, Rotation: float64(g.yaw)}}
	switch {
	case s.style == "long_horizon":
		t.Start.Rotation = float64((g.yaw + 180) % 360)
	case s.split == training:
		t.Start.Rotation = 90 * float64(rng.New(2, rng.Level, uint64(i)).IntN(4))
	}
	t.Instruction = instruction(s.style, kindOf(o.Type), o.Color, g.scene.room,
		rng.New(1, rng.Level, uint64(i), uint64(len(s.style)+len(s.split))))
	return t, g.scene, nil
}

// agentHeight is the y coordinate of the agent's centre in tasks.
const agentHeight = 0.9009999

// generated is a room with a target and a start from which the target is in view.
type generated struct {
	scene  *Scene
	target int
	start  rays.Vec
	yaw    int
}

// Bounds of generated tasks. Path lengths hold for both rule sets.
const (
	nearestStart  = 2.5 // metres from the target, straight-line distance
	farthestStart = 6.0
	longestWay    = 20 // moves
	maxRooms      = 64 // maximum tried per task
)

// generate generates room i of a family with its task. The target has one of the given types,
// or any if there are none.
func generate(split string, i int, targets []string) (generated, error) {
	kinds := roomsWith(targets)
	family := fnv.New64a()
	family.Write([]byte(split))
	for try := range uint64(maxRooms) {
		r := rng.New(family.Sum64(), rng.Level, uint64(i), try)
		kind := kinds[i%len(kinds)]
		scene := generateRoom(sceneName(split, i, targets), kind, r)
		if g, ok := chooseTask(scene, r, targets); ok {
			return g, nil
		}
	}
	return generated{}, fmt.Errorf("navigation: %w: no task was found in %d rooms of %s", ErrTask, maxRooms,
		sceneName(split, i, targets))
}

// roomsWith returns the kinds of rooms that may have a target of one of the given types, all
// kinds if there are none.
func roomsWith(targets []string) []room {
	return slices.DeleteFunc(slices.Clone(anywhere), func(r room) bool {
		return len(targets) > 0 && !slices.ContainsFunc(targets, r.mayHaveOne)
	})
}

// mayHaveOne reports whether rooms of a kind may contain exactly one object of a type.
func (r room) mayHaveOne(name string) bool {
	plan, k := catalog.Rooms[r], kindOf(name)
	if i := slices.Index(plan.Always, name); i >= 0 {
		return !slices.Contains(plan.Always[i+1:], name)
	}
	return slices.Contains(plan.Often, name) || k.Place == onTop && slices.Contains(k.Rooms, r)
}

// chooseTask chooses a target that is unique in its type, and a start.
func chooseTask(s *Scene, r *rand.Rand, targets []string) (generated, bool) {
	for _, target := range r.Perm(len(s.objects)) {
		o := &s.objects[target]
		if s.count(o.Type) != 1 || len(targets) > 0 && !slices.Contains(targets, o.Type) {
			continue
		}
		for range 60 {
			var start rays.Vec
			start.X, start.Z = s.cell(r.IntN(s.cols), r.IntN(s.rows))
			away := math.Hypot(start.X-o.Center[0], start.Z-o.Center[2])
			if !s.Free(start.X, start.Z) || away < nearestStart || away > farthestStart {
				continue
			}
			yaw := facing(start, o)
			eye := rays.Eye{At: rays.V(start.X, eyeHeight, start.Z), Yaw: float64(yaw), FOV: 100}
			if s.visible(eye, target) && s.reachable(start.X, start.Z, o.Center[0], o.Center[2], longestWay) {
				return generated{s, target, start, yaw}, true
			}
		}
	}
	return generated{}, false
}

// facing returns the multiple of 90 degrees that points most directly at an object.
func facing(from rays.Vec, o *Object) int {
	angle := math.Atan2(o.Center[0]-from.X, o.Center[2]-from.Z) * 180 / math.Pi
	return (int(math.Round(angle/90))*90 + 360) % 360
}

// reachable reports whether the agent can walk from one position to another in so many moves at most under both
// published rule sets.
func (s *Scene) reachable(x, z, tx, tz float64, most int) bool {
	for _, rules := range []env.Rules{env.Lite, env.Legacy} {
		o := DefaultOptions(rules)
		if way, ok := s.Route(x, z, tx, tz, o.StepLength, o.SuccessThreshold); !ok || len(way) > most {
			return false
		}
	}
	return true
}
