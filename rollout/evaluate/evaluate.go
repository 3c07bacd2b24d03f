// Package evaluate plays datasets of episodes with any policy and reports the results,
// with confidence intervals. A stopped evaluation resumes with the missing episodes.
//
//	Evaluation   plays tasks and writes a folder for each episode
//	Task         episodes with a tag, and how they are played
//	Report       the table of a folder: a Row of Estimates for each tag and model
//	PlayBatches  plays episodes some at a time, without files
package evaluate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"vagen/internal/field"
	"vagen/internal/silent"
	"vagen/policy"
	"vagen/rollout"
)

var (
	// ErrSettings is wrapped by errors about the fields of an Evaluation.
	ErrSettings = errors.New("bad evaluation")
	// ErrResultsExist means that the folder already contains results.
	ErrResultsExist = errors.New("the folder already contains results")
	// ErrOtherSettings means that stored results were made with other settings.
	ErrOtherSettings = errors.New("the results were made with other settings")
	// ErrBusy means that another process evaluates the same model in the folder.
	ErrBusy = errors.New("another process evaluates the model")
	// ErrNothingRan means that no episode of an evaluation can be used, or none of those
	// that were played by this Run.
	ErrNothingRan = errors.New("nothing was evaluated")
)

// Task is a part of an evaluation with separate results: episodes that are played in the
// same way.
type Task struct {
	Tag      string            // names the results and their folder, tag_<Tag>
	Player   rollout.Player    // plays them; its Policy is the evaluation's
	Episodes []rollout.Episode // each with another pair of Group and Index
	AtOnce   int               // episodes of a batch; 0 is all of them
	Seed     uint64            // seed of sampling
	Judge    string            // identifies the judge of state rewards; "" for none
	// Context returns the context of each independent episode, or of all batches, from that
	// of the evaluation, so that a limit such as a judge's budget is one episode's; nil is
	// the evaluation's own.
	Context func(context.Context) context.Context
}

// context returns the context to play with.
func (t *Task) context(ctx context.Context) context.Context {
	if t.Context == nil {
		return ctx
	}
	return t.Context(ctx)
}

// Resume sets what to do with existing results.
type Resume string

// The ways to resume.
const (
	SkipCompleted Resume = "skip_completed" // keep usable episodes, play the others again
	ResumeOff     Resume = "off"            // existing results are an error
	ForceRerun    Resume = "force_rerun"    // remove existing results
)

// Evaluation plays tasks with a policy. It writes the result of each episode to a folder
// as soon as the episode ends:
//
//	Dir/tag_<Tag>/<id>/result.json   metrics
//	                  /episode.json  the conversation, with its images next to it
//	Dir/summary.json, .md, .txt      tables of all models with results in Dir
//
// A stopped evaluation resumes with the missing episodes: an episode is identified by
// environment, seed, tag and model. If results were made with other settings, the error
// wraps ErrOtherSettings. Results of Model that are of no episode of a task are left as they
// are, and do not count.
type Evaluation struct {
	Dir    string
	Model  string // name of the policy in results
	Policy policy.Policy
	// Identity tells policies of the same Model apart, for example by the hashes of their
	// weights: the results of another one are results with other settings.
	Identity string
	// Independent means that the policy supports concurrent callers, as APIs do: episodes are
	// then played independently, Concurrency at a time. Otherwise a task's episodes are
	// played in batches.
	Independent bool
	Concurrency int // with Independent; 0 is 1
	Tasks       []Task
	Resume      Resume // "" is SkipCompleted
	// Live also updates the summary during the evaluation.
	Live bool
	// Done, if not nil, is called after each episode with the numbers of finished and of
	// all episodes.
	Done func(over, all int)
	Log  *slog.Logger // nil discards

	places map[string]map[place]numberedEpisode // the episodes of tasks, by tag

	mu       sync.Mutex
	results  map[string][]EpisodeResult // by tag, of all models
	finished int                        // finished episodes
	usable   int                        // usable episodes among those that this Run played
	all      int
	written  time.Time
	played   atomic.Uint64 // episodes started with Independent
}

// Missing lists the episodes that Run would play, by task. It changes nothing.
func (e *Evaluation) Missing() ([][]rollout.Episode, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	out := make([][]rollout.Episode, len(e.Tasks))
	for i := range e.Tasks {
		var err error
		if out[i], _, _, err = e.missing(&e.Tasks[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Run plays the missing episodes and reports all results. With ErrNothingRan it also
// returns the report, which has the reasons. After other errors the results so far are
// kept, and a later Run resumes. If a Run of the same Model in Dir has not ended, the error wraps ErrBusy.
func (e *Evaluation) Run(ctx context.Context) (*Report, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	unlock, err := e.lock()
	if err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	defer unlock()
	missing, err := e.begin()
	if err != nil {
		return nil, err
	}
	left := e.all - e.finished
	if e.finished > 0 {
		e.Log.Info("episodes have results already", "done", e.finished, "of", e.all)
	}
	for i := range e.Tasks {
		t := &e.Tasks[i]
		if len(missing[i]) == 0 {
			continue
		}
		if e.Independent {
			err = e.playIndependently(ctx, t, missing[i])
		} else {
			err = e.playBatches(ctx, t, missing[i])
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("evaluate: tag %s: %w", t.Tag, err), e.write())
		}
	}
	if err := e.write(); err != nil {
		return nil, err
	}
	r := e.report()
	if left > 0 && e.usable == 0 {
		return r, fmt.Errorf("evaluate: %w: none of the %d played episodes can be used", ErrNothingRan, left)
	}
	for _, row := range r.Rows {
		if row.Model == e.Model && row.Episodes > row.Unusable {
			return r, nil
		}
	}
	return r, fmt.Errorf("evaluate: %w: none of %d episodes can be used", ErrNothingRan, e.all)
}

// check checks the fields of the evaluation.
func (e *Evaluation) check() error {
	var c field.Checks
	switch e.Resume {
	case "", SkipCompleted, ResumeOff, ForceRerun:
	default:
		c.Say("Resume is %q, must be %s, %s or %s", e.Resume, SkipCompleted, ResumeOff, ForceRerun)
	}
	if e.Dir == "" || e.Model == "" || len(e.Tasks) == 0 {
		c.Say("Dir is %q, Model %q, and there are %d Tasks; none may be empty", e.Dir, e.Model, len(e.Tasks))
	}
	tags := map[string]bool{}
	for i := range e.Tasks {
		t := &e.Tasks[i]
		name := folderPrefix + t.Tag
		switch key := strings.ToLower(t.Tag); {
		case t.Tag == "" || filepath.Base(name) != name || !filepath.IsLocal(name) || strings.ContainsAny(name, `/\`):
			c.Say("task %d: Tag is %q, must be valid as the name of a folder", i, t.Tag)
		case tags[key]:
			c.Say("task %d: Tag is %q, which another task has, too: results would be mixed", i, t.Tag)
		default:
			tags[key] = true
		}
		if len(t.Episodes) == 0 {
			c.Say("task %d (%s): Episodes is empty", i, t.Tag)
		}
		if k := duplicate(t.Episodes); k >= 0 {
			c.Say("task %d (%s): episode %d has group %d and index %d like an earlier one: results would be mixed", i, t.Tag, k,
				t.Episodes[k].Group, t.Episodes[k].Index)
		}
		if t.AtOnce < 0 {
			c.Say("task %d (%s): AtOnce is %d, must not be negative", i, t.Tag, t.AtOnce)
		}
	}
	if err := c.Err(); err != nil {
		return fmt.Errorf("evaluate: %w: %w", ErrSettings, err)
	}
	e.Log = silent.Log(e.Log)
	return nil
}

const folderPrefix = "tag_"

func (e *Evaluation) folder(t *Task) string { return filepath.Join(e.Dir, folderPrefix+t.Tag) }

// begin reads existing results, and removes those of episodes that are played again.
func (e *Evaluation) begin() (missing [][]rollout.Episode, err error) {
	e.results, e.finished, e.all, e.usable = map[string][]EpisodeResult{}, 0, 0, 0
	e.places = map[string]map[place]numberedEpisode{}
	missing = make([][]rollout.Episode, len(e.Tasks))
	for i := range e.Tasks {
		t := &e.Tasks[i]
		var stale []string
		var stored []EpisodeResult
		if missing[i], stale, stored, err = e.missing(t); err != nil {
			return nil, err
		}
		own := map[string]bool{}
		e.places[t.Tag] = map[place]numberedEpisode{}
		for _, n := range numbered(t.Episodes) {
			own[e.id(&n)] = true
			e.places[t.Tag][placeOf(&n.Episode)] = n
		}
		for _, id := range stale {
			if err := os.RemoveAll(filepath.Join(e.folder(t), id)); err != nil {
				return nil, fmt.Errorf("evaluate: %w", err)
			}
			delete(own, id)
		}
		e.results[t.Tag] = slices.DeleteFunc(stored, func(r EpisodeResult) bool { return r.Model == e.Model && !own[r.ID] })
		e.all += len(t.Episodes)
		e.finished += len(t.Episodes) - len(missing[i])
	}
	return missing, nil
}

// missing lists the episodes of a task to play, the ids of the existing results of those, and all existing results.
func (e *Evaluation) missing(t *Task) (missing []rollout.Episode, stale []string, stored []EpisodeResult, err error) {
	if stored, err = readResults(e.folder(t)); err != nil {
		return nil, nil, nil, err
	}
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
			return nil, nil, nil, fmt.Errorf("evaluate: %w: %s has results of %s (resume with %s, or replace them with %s)",
				ErrResultsExist, e.folder(t), e.Model, SkipCompleted, ForceRerun)
		case e.Resume == ForceRerun || !r.Usable():
			missing, stale = append(missing, n.Episode), append(stale, id)
		case r.Settings != e.settings(t, &n.Episode):
			return nil, nil, nil, fmt.Errorf("evaluate: %w: %s: %s, seed %d, was played with another model or judge or "+
				"other settings (sampling, harness, limits or options) than tag %s has now, or by a version of vagen "+
				"that recorded fewer of them: use another tag, or replace the results with %s",
				ErrOtherSettings, filepath.Join(e.folder(t), id), r.Env, r.Seed, t.Tag, ForceRerun)
		}
	}
	return missing, stale, stored, nil
}

// place identifies an episode within its task.
type place struct{ group, index int }

func placeOf(e *rollout.Episode) place { return place{e.Group, e.Index} }

// duplicate returns the first episode in the place of an earlier one, -1 for none.
func duplicate(episodes []rollout.Episode) int {
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

// numberedEpisode is an episode with the number of earlier ones with the same environment and seed.
type numberedEpisode struct {
	rollout.Episode
	repeat int
}

func numbered(episodes []rollout.Episode) []numberedEpisode {
	type level struct {
		env  string
		seed int64
	}
	seen := map[level]int{}
	out := make([]numberedEpisode, len(episodes))
	for i, ep := range episodes {
		k := level{ep.Env, ep.Seed}
		out[i] = numberedEpisode{ep, seen[k]}
		seen[k]++
	}
	return out
}

func (e *Evaluation) id(n *numberedEpisode) string {
	return rollout.RolloutID(n.Env, strconv.FormatInt(n.Seed, 10), strconv.Itoa(n.repeat), e.Model)
}

// store writes the result of an episode.
func (e *Evaluation) store(t *Task, tr *rollout.Trajectory, used policy.Usage) error {
	n := e.places[t.Tag][placeOf(&tr.Episode)]
	r := resultOf(tr, used)
	r.ID, r.Tag, r.Model, r.Repeat, r.Settings = e.id(&n), t.Tag, e.Model, n.repeat, e.settings(t, &n.Episode)
	if err := writeResult(e.folder(t), &r, tr); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.results[t.Tag] = append(e.results[t.Tag], r)
	e.finished++
	if e.Done != nil {
		e.Done(e.finished, e.all)
	}
	if r.Usable() {
		e.usable++
	} else {
		e.Log.Warn("episode cannot be used", "tag", t.Tag, "env", r.Env, "seed", r.Seed, "end", r.End, "err", r.Error)
	}
	const often = 5 * time.Second
	if !e.Live || time.Since(e.written) < often {
		return nil
	}
	e.written = time.Now()
	if err := e.report().Save(e.Dir); err != nil { // the last one counts
		e.Log.Warn("the summary cannot be written", "err", err)
	}
	return nil
}

// write writes the summary, with the results that other models have by now.
func (e *Evaluation) write() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.Tasks {
		t := &e.Tasks[i]
		stored, err := readResults(e.folder(t))
		if err != nil {
			return err
		}
		others := slices.DeleteFunc(stored, func(r EpisodeResult) bool { return r.Model == e.Model })
		own := slices.DeleteFunc(e.results[t.Tag], func(r EpisodeResult) bool { return r.Model != e.Model })
		e.results[t.Tag] = append(own, others...)
	}
	return e.report().Save(e.Dir)
}
