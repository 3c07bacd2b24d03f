package navigation

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"vagen/env"
	"vagen/internal/jsontext"
	"vagen/internal/regular"
)

// Position is a position in metres: x to the east, y up, z to the north.
type Position struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
	Z float64 `json:"z"`
}

// Pose is the agent's initial position and view: Rotation in degrees clockwise
// from north, Horizon in degrees downwards.
type Pose struct {
	Position Position `json:"position"`
	Rotation float64  `json:"rotation"`
	Horizon  float64  `json:"horizon"`
}

// Task is one episode, in the format of the original environment's files.
type Task struct {
	TargetType  string   `json:"targetObjectType"`
	TargetID    string   `json:"targetObjectIds"`
	Target      Position `json:"target_position"`
	Start       Pose     `json:"agentPose"`
	Scene       string   `json:"scene"`
	Hide        []string `json:"object_to_hide"` // has no effect
	Instruction string   `json:"instruction"`
}

// ErrTask is wrapped by errors about tasks that can't be played.
var ErrTask = errors.New("bad task")

// TaskSet is a list of tasks with their scenes. Its methods are safe for
// concurrent use.
type TaskSet interface {
	Len() int
	// At returns a task and the scene that it plays in; 0 ≤ i < Len.
	At(i int) (Task, *Scene, error)
}

// maxSpan is the largest side of a room in metres.
const maxSpan = 60

func (t *Task) validate() error {
	p := t.Start.Position
	for _, of := range []struct {
		name  string
		value float64
	}{
		{"target_position x", t.Target.X}, {"target_position y", t.Target.Y}, {"target_position z", t.Target.Z},
		{"agentPose x", p.X}, {"agentPose z", p.Z}, {"rotation", t.Start.Rotation}, {"horizon", t.Start.Horizon},
	} {
		if math.IsNaN(of.value) || math.Abs(of.value) > 1000 {
			return fmt.Errorf("%s is %v, must be within ±1000", of.name, of.value)
		}
	}
	switch {
	case t.TargetType == "":
		return errors.New("targetObjectType is missing")
	case t.Scene == "":
		return errors.New("scene is missing")
	case math.Abs(p.X-t.Target.X) > maxSpan/2 || math.Abs(p.Z-t.Target.Z) > maxSpan/2:
		return fmt.Errorf("the target is %.1f m from the start, must be at most %d",
			math.Hypot(p.X-t.Target.X, p.Z-t.Target.Z), maxSpan/2)
	}
	return nil
}

// fileSet holds the tasks of a file. A scene is built on first use of one of its tasks,
// from its name and all its tasks.
type fileSet struct {
	tasks  []Task
	scenes map[string]func() (*Scene, error)
}

// ReadTasks returns the tasks of a file in the original's format:
//
//	{"tasks": [{"scene": …, "agentPose": …, "target_position": …, "targetObjectType": …, "instruction": …}, …]}
//
// Scenes that this package generated are found by their names. All others, including
// AI2-THOR's floor plans, are not available; a room whose furniture is derived from the
// hash of the scene's name replaces them. It has the targets of all tasks of the file
// at their positions, leaves the starts free, and has a path from each start to its
// target.
func ReadTasks(name string) (TaskSet, error) {
	raw, err := regular.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("navigation: %w: %w", ErrTask, err)
	}
	return parseTasks(raw, name)
}

func parseTasks(raw []byte, name string) (TaskSet, error) {
	var file struct {
		Tasks []Task `json:"tasks"`
	}
	if err := jsontext.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("navigation: %w: %s: %w", ErrTask, name, err)
	}
	return newTaskSet(file.Tasks, name)
}

// newTaskSet is ReadTasks for tasks in memory; name is used in messages.
func newTaskSet(tasks []Task, name string) (TaskSet, error) {
	if len(tasks) == 0 {
		return nil, fmt.Errorf("navigation: %w: %s: found no tasks, must be at least one", ErrTask, name)
	}
	groups := make(map[string][]Task)
	for i, t := range tasks {
		if err := t.validate(); err != nil {
			return nil, fmt.Errorf("navigation: %w: %s: task %d: %w", ErrTask, name, i, err)
		}
		groups[t.Scene] = append(groups[t.Scene], t)
	}
	s := &fileSet{tasks: tasks, scenes: make(map[string]func() (*Scene, error))}
	for scene, group := range groups {
		s.scenes[scene] = sync.OnceValues(func() (*Scene, error) {
			if split, i, targets, ok := generatedName(scene); ok {
				made, err := generate(split, i, targets)
				return made.scene, err
			}
			return substituteScene(scene, group)
		})
	}
	return s, nil
}

// Len implements TaskSet.
func (s *fileSet) Len() int { return len(s.tasks) }

// At implements TaskSet.
func (s *fileSet) At(i int) (Task, *Scene, error) {
	t := s.tasks[i]
	scene, err := s.scenes[t.Scene]()
	if err != nil {
		return t, nil, fmt.Errorf("navigation: task %d: %w", i, err)
	}
	return t, scene, nil
}

// sampled contains every n-th task of a set.
type sampled struct {
	TaskSet
	every int
}

func (s sampled) Len() int                       { return (s.TaskSet.Len() + s.every - 1) / s.every }
func (s sampled) At(i int) (Task, *Scene, error) { return s.TaskSet.At(i * s.every) }

// readSets has the task sets of files, because the environments of a run share them.
var readSets regular.Cache[TaskSet]

// taskSet returns the tasks that the options name.
func (o *Options) taskSet() (TaskSet, error) {
	set, err := o.source()
	if err != nil {
		return nil, err
	}
	if o.DownSample > 0 && o.DownSample < 1 {
		set = sampled{set, int(math.RoundToEven(1 / o.DownSample))}
	}
	return set, nil
}

func (o *Options) source() (TaskSet, error) {
	if o.TaskDir == "" {
		return builtIn(o.EvalSet, o.Targets)
	}
	path := o.TaskDir
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if !filepath.IsLocal(o.EvalSet + ".json") {
			return nil, fmt.Errorf("navigation: option %q: %w: %q is not the name of a file below task_dir", "eval_set",
				env.ErrOption, o.EvalSet)
		}
		path = filepath.Join(path, o.EvalSet+".json")
	}
	return readSets.Get(path, ReadTasks)
}

// generatedName parses the name of a generated scene.
func generatedName(name string) (split string, i int, targets []string, ok bool) {
	room, list, limited := strings.Cut(strings.TrimPrefix(name, scenePrefix), targetMark)
	split, number, ok := strings.Cut(room, "-")
	if !ok || split != evaluation && split != training && split != open {
		return "", 0, nil, false
	}
	if limited {
		targets = strings.Split(list, targetMark)
	}
	known := targetTypes()
	for _, target := range targets {
		ok = ok && slices.Contains(known, target)
	}
	i, err := strconv.Atoi(number)
	if !ok || err != nil || i < 0 || i >= generatedTasks(split) || sceneName(split, i, targets) != name {
		return "", 0, nil, false
	}
	return split, i, targets, true
}
