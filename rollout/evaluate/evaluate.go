package evaluate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"vagen/policy"
	"vagen/rollout"
)

// ErrNothingRan means that no episode of an evaluation can be used, or none of
// those that were played this time.
var (
	// ErrSettings is wrapped by errors about what an Evaluation was given.
	ErrSettings = errors.New("bad evaluation")
	// ErrResultsExist means that the folder has results already.
	ErrResultsExist = errors.New("the folder has results already")
	// ErrOtherSettings means that stored results were made with other settings.
	ErrOtherSettings = errors.New("the results were made with other settings")
)

var ErrNothingRan = errors.New("nothing was evaluated")

// Task is a part of an evaluation with results of its own: episodes that are played
// in the same way.
type Task struct {
	Tag      string            // names the results and their folder, tag_<Tag>
	Player   rollout.Player    // plays them; its Policy is the evaluation's
	Episodes []rollout.Episode // told apart by Group and Index
	AtOnce   int               // episodes of a batch; 0 is all of them
	Seed     uint64            // decides all sampling
}

// Resume says what becomes of results that are there.
type Resume string

// The ways to resume.
const (
	SkipCompleted Resume = "skip_completed" // episodes that can be used are kept, others are played again
	ResumeOff     Resume = "off"            // results that are there are an error
	ForceRerun    Resume = "force_rerun"    // they are removed
)

// Evaluation plays tasks with a policy and keeps what came of each episode, once, in
// a folder of its own as soon as it is over:
//
//	Dir/tag_<Tag>/<id>/result.json   figures
//	                  /episode.json  what was shown and said, with pictures beside it
//	Dir/summary.json, .md, .txt      tables of all models that Dir knows
//
// An evaluation that was stopped goes on with what is missing: an episode is known
// by environment, seed, tag and model. Results that were made with other settings
// are an ErrOtherConfig.
type Evaluation struct {
	Dir    string
	Model  string // how results call the policy
	Policy policy.Policy
	// Apart says that the policy answers several callers at once, as APIs do: each
	// episode is then played by itself, Concurrency of them at a time, and none
	// waits for another. Otherwise a task's episodes are played in batches.
	Apart       bool
	Concurrency int // of Apart; 0 is 1
	Tasks       []Task
	Resume      Resume // "" is SkipCompleted
	// Live has the summary written while the evaluation goes on, too.
	Live bool
	// Done is called after each episode, with how many of all are over. nil is allowed.
	Done func(over, all int)
	Log  *slog.Logger // nil discards

	mu      sync.Mutex
	results map[string][]EpisodeResult // by tag, of all models
	over    int
	usable  int // of the episodes that this Run played
	all     int
	written time.Time
	lanes   atomic.Uint64
}

// Missing lists what Run would play, by task, without changing anything.
func (e *Evaluation) Missing() ([][]rollout.Episode, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	out := make([][]rollout.Episode, len(e.Tasks))
	for i := range e.Tasks {
		t := &e.Tasks[i]
		stored, err := readResults(e.folder(t))
		if err != nil {
			return nil, err
		}
		if out[i], _, err = e.missing(t, stored); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Run plays what is missing and sums up all there is. With ErrNothingRan there is a
// report that says why; other errors leave what was played where it is, and a later
// Run goes on.
func (e *Evaluation) Run(ctx context.Context) (*Report, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	missing, err := e.begin()
	if err != nil {
		return nil, err
	}
	for i := range e.Tasks {
		t := &e.Tasks[i]
		if len(missing[i]) == 0 {
			continue
		}
		if e.Apart {
			err = e.playApart(ctx, t, missing[i])
		} else {
			err = e.playTogether(ctx, t, missing[i])
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("evaluate: tag %s: %w", t.Tag, err), e.write())
		}
	}
	if err := e.write(); err != nil {
		return nil, err
	}
	r := e.report()
	if n := played(missing); n > 0 && e.usable == 0 {
		return r, fmt.Errorf("evaluate: %w: none of the %d episodes that were played can be used", ErrNothingRan, n)
	}
	for _, row := range r.Rows {
		if row.Model == e.Model && row.Episodes > row.Unusable {
			return r, nil
		}
	}
	return r, fmt.Errorf("evaluate: %w: none of %d episodes can be used", ErrNothingRan, e.all)
}

// played counts the episodes of a Run.
func played(missing [][]rollout.Episode) int {
	n := 0
	for _, part := range missing {
		n += len(part)
	}
	return n
}

// check reports what makes no sense.
func (e *Evaluation) check() error {
	var problems []error
	say := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	switch e.Resume {
	case "", SkipCompleted, ResumeOff, ForceRerun:
	default:
		say("Resume is %q, must be %s, %s or %s", e.Resume, SkipCompleted, ResumeOff, ForceRerun)
	}
	if e.Dir == "" || e.Model == "" || len(e.Tasks) == 0 {
		say("Dir is %q, Model %q, and there are %d Tasks; none may be empty", e.Dir, e.Model, len(e.Tasks))
	}
	tags := map[string]bool{}
	for i := range e.Tasks {
		t := &e.Tasks[i]
		name := folderPrefix + t.Tag
		switch key := strings.ToLower(t.Tag); {
		case t.Tag == "" || filepath.Base(name) != name || !filepath.IsLocal(name) || strings.ContainsAny(name, `/\`):
			say("task %d: the tag %q is not the name of a folder", i, t.Tag)
		case tags[key]:
			say("task %d: the tag %q is another task's; results would be mixed", i, t.Tag)
		default:
			tags[key] = true
		}
		if len(t.Episodes) == 0 {
			say("task %d (%s): it has no episodes", i, t.Tag)
		}
		if k := twice(t.Episodes); k >= 0 {
			say("task %d (%s): episode %d has group %d and index %d as one before it; results would be mixed", i, t.Tag, k, t.Episodes[k].Group, t.Episodes[k].Index)
		}
		if t.AtOnce < 0 {
			say("task %d (%s): AtOnce is %d, must not be negative", i, t.Tag, t.AtOnce)
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("evaluate: %w: %w", ErrSettings, errors.Join(problems...))
	}
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

const folderPrefix = "tag_"

func (e *Evaluation) folder(t *Task) string { return filepath.Join(e.Dir, folderPrefix+t.Tag) }

// begin reads what is there, and removes what is to be made anew.
func (e *Evaluation) begin() (missing [][]rollout.Episode, err error) {
	e.results, e.over, e.all, e.usable = map[string][]EpisodeResult{}, 0, 0, 0
	missing = make([][]rollout.Episode, len(e.Tasks))
	for i := range e.Tasks {
		t := &e.Tasks[i]
		stored, err := readResults(e.folder(t))
		if err != nil {
			return nil, err
		}
		var stale []string
		if missing[i], stale, err = e.missing(t, stored); err != nil {
			return nil, err
		}
		for _, id := range stale {
			if err := removeResult(e.folder(t), id); err != nil {
				return nil, err
			}
			stored = slices.DeleteFunc(stored, func(r EpisodeResult) bool { return r.ID == id })
		}
		e.results[t.Tag] = stored
		e.all += len(t.Episodes)
		e.over += len(t.Episodes) - len(missing[i])
	}
	return missing, nil
}

// missing lists the episodes of a task without a result, and the results that have
// to go.
func (e *Evaluation) missing(t *Task, stored []EpisodeResult) (missing []rollout.Episode, stale []string, err error) {
	have := map[string]*EpisodeResult{}
	for i := range stored {
		have[stored[i].ID] = &stored[i]
	}
	for _, n := range numbered(t.Episodes) {
		id := e.id(&n)
		r := have[id]
		switch {
		case r == nil:
			missing = append(missing, n.Episode)
		case e.Resume == ResumeOff:
			return nil, nil, fmt.Errorf("evaluate: %w: %s has results of %s (go on with resume %s, or replace them with %s)", ErrResultsExist, e.folder(t), e.Model, SkipCompleted, ForceRerun)
		case e.Resume == ForceRerun || !r.Usable():
			missing, stale = append(missing, n.Episode), append(stale, id)
		case r.Settings != t.settings(&n.Episode):
			return nil, nil, fmt.Errorf("evaluate: %w: %s: %s, seed %d, was played with other settings than tag %s has now (sampling, harness, limits or options): take another tag, or replace results with %s",
				ErrOtherSettings, filepath.Join(e.folder(t), id), r.Env, r.Seed, t.Tag, ForceRerun)
		}
	}
	return missing, stale, nil
}

// place tells an episode from the others of its task.
type place struct{ group, index int }

func placeOf(e *rollout.Episode) place { return place{e.Group, e.Index} }

// twice returns the first episode in the place of one before it, -1 for none.
func twice(episodes []rollout.Episode) int {
	seen := map[place]bool{}
	for i := range episodes {
		at := placeOf(&episodes[i])
		if seen[at] {
			return i
		}
		seen[at] = true
	}
	return -1
}

// nth is an episode with how many of the same environment and seed come before it.
type nth struct {
	rollout.Episode
	repeat int
}

func numbered(episodes []rollout.Episode) []nth {
	type level struct {
		env  string
		seed int64
	}
	seen := map[level]int{}
	out := make([]nth, len(episodes))
	for i, ep := range episodes {
		k := level{ep.Env, ep.Seed}
		out[i] = nth{ep, seen[k]}
		seen[k]++
	}
	return out
}

func (e *Evaluation) id(n *nth) string {
	return rollout.RolloutID(n.Env, strconv.FormatInt(n.Seed, 10), strconv.Itoa(n.repeat), e.Model)
}

// take keeps what was played.
func (e *Evaluation) take(t *Task, tr *rollout.Trajectory, used policy.Usage) error {
	i := slices.IndexFunc(t.Episodes, func(ep rollout.Episode) bool { return placeOf(&ep) == placeOf(&tr.Episode) })
	n := numbered(t.Episodes[:i+1])[i]
	r := resultOf(tr, used)
	r.ID, r.Tag, r.Model, r.Repeat, r.Settings = e.id(&n), t.Tag, e.Model, n.repeat, t.settings(&n.Episode)
	if err := writeResult(e.folder(t), &r, tr); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.results[t.Tag] = append(e.results[t.Tag], r)
	e.over++
	if e.Done != nil {
		e.Done(e.over, e.all)
	}
	if r.Usable() {
		e.usable++
	} else {
		e.Log.Warn("an episode cannot be used", "tag", t.Tag, "env", r.Env, "seed", r.Seed, "end", r.End, "err", r.Error)
	}
	const often = 5 * time.Second
	if !e.Live || time.Since(e.written) < often {
		return nil
	}
	e.written = time.Now()
	return e.report().Save(e.Dir)
}

func (e *Evaluation) write() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.report().Save(e.Dir)
}
