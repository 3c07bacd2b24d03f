package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// ErrOverlap is wrapped by the error of Disjoint.
var ErrOverlap = errors.New("datasets overlap")

// Overlap is a level that two datasets share.
type Overlap struct {
	Env  string
	Seed int64
	A, B int // the first episode of each dataset that has it
}

// levelOptions are the options of this library's and of remote environments that
// determine the level of a seed.
var levelOptions = []string{
	"rules", "desc", "size", "p", "map_seed", // FrozenLake
	"dim_room", "num_boxes", "min_solution_steps", "retry", "held_out", // Sokoban
	"eval_set", "task_dir", "down_sample_ratio", // navigation
	"env_id",                               // manipulation
	"data_dir", "dataset_name", "exp_type", // SVG, SpatialGym
	"env_name", // legacy services
}

// Overlaps lists the levels that two datasets share, in the order of a. Two episodes have
// the same level if environment and seed are equal, unless an option that determines
// levels is set in both and differs. These options are known for the environments of this
// library; levelKeys adds others. Options of rendering, rewards and limits are ignored, and
// so is the address of a service.
//
// Overlaps does not find equal levels of different seeds. They exist in environments
// that use the seed modulo the number of their tasks, or that try another seed when
// one gives no room.
func Overlaps(a, b []Episode, levelKeys ...string) []Overlap {
	l := &levels{keys: append(slices.Clone(levelOptions), levelKeys...), seen: map[uintptr]*level{}}
	type start struct {
		env  string
		seed int64
	}
	known := make(map[start][]int, len(b)) // one episode for each set of level options
	for i := range b {
		at := start{fold(b[i].Env), b[i].Seed}
		decided := l.of(&b[i])
		if !slices.ContainsFunc(known[at], func(j int) bool { return l.of(&b[j]) == decided }) {
			known[at] = append(known[at], i)
		}
	}
	var out []Overlap
	reported := make(map[start]bool)
	for i := range a {
		at := start{fold(a[i].Env), a[i].Seed}
		if reported[at] {
			continue
		}
		for _, j := range known[at] {
			if l.of(&a[i]).agrees(l.of(&b[j])) {
				out = append(out, Overlap{Env: a[i].Env, Seed: a[i].Seed, A: i, B: j})
				reported[at] = true
				break
			}
		}
	}
	return out
}

// Disjoint returns nil if Overlaps finds nothing, otherwise an error with the number of
// shared levels and the first of them.
func Disjoint(a, b []Episode, levelKeys ...string) error {
	shared := Overlaps(a, b, levelKeys...)
	if len(shared) == 0 {
		return nil
	}
	names := make([]string, min(len(shared), 5))
	for i := range names {
		names[i] = fmt.Sprintf("%s seed %d (episodes %d and %d)", shared[i].Env, shared[i].Seed, shared[i].A, shared[i].B)
	}
	if len(shared) > len(names) {
		names = append(names, "…")
	}
	return fmt.Errorf("dataset: %w: they share %d levels: %s", ErrOverlap, len(shared), strings.Join(names, ", "))
}

// level holds the options that determine a level, as JSON.
type level map[string]string

// agrees reports whether no option set in both levels differs.
func (a *level) agrees(b *level) bool {
	for key, value := range *a {
		if other, ok := (*b)[key]; ok && other != value {
			return false
		}
	}
	return true
}

// levels returns the level of an episode. It caches levels by configuration, because the
// episodes of an entry share theirs.
type levels struct {
	keys []string
	seen map[uintptr]*level // by configuration
}

func (l *levels) of(e *Episode) *level {
	// The episode keeps the map alive, so that its address identifies it.
	at := reflect.ValueOf(e.Config).Pointer()
	if found, ok := l.seen[at]; ok {
		return found
	}
	found := level{}
	for _, key := range l.keys {
		v, ok := e.Config[key]
		if !ok || v == nil {
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			text = fmt.Append(nil, v) // not from a file: NaN, for instance
		}
		found[key] = string(text)
	}
	l.seen[at] = &found
	return &found
}
