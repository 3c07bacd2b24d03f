// Package rundir names the files in the folder of a run, and reads them: every reader of a run's
// configuration, metrics, checkpoints and episodes uses it.
//
//	Dir           the folder: its configuration, events, checkpoints, lock
//	Numbered      lists folders with a number in their names, Number reads it
//	EpisodesName  names the file of a step's episodes, ScoresName that of their scores; StepOf reads such names
package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vagen/internal/durable"
	"vagen/internal/filelock"
	"vagen/internal/regular"
	"vagen/train/config"
	"vagen/train/track"
)

// Files and folders in the folder of a run. A checkpoint has a configuration, too.
const (
	ConfigName  = "config.yaml"
	MetricsName = "metrics.jsonl"
	IDName      = "run.id"      // random ID of the run
	BestName    = "best_actor"  // the policy of the best validation
	Checkpoints = "checkpoints" // has folders StepPrefix<n> and ActorPrefix<n>
	Shown       = "episodes"    // has folders StepPrefix<n> with readable episodes
)

// Names in the folder Checkpoints.
const (
	StepPrefix   = "step_"
	ActorPrefix  = "actor_step_"   // a policy kept without the rest of its checkpoint
	ActorName    = "actor"         // the policy in a checkpoint
	ManifestName = "manifest.json" // size and SHA-256 of every other file of a checkpoint
)

// OwnerName is the file in a folder of recorded episodes that identifies their run.
const OwnerName = "run.txt"

var (
	// ErrBusy means that another process uses a folder.
	ErrBusy = errors.New("another process uses the run")
	// ErrTorn means that the last line of a file is incomplete: the process stopped while writing it, or
	// is writing it.
	ErrTorn = errors.New("the last line is incomplete")
)

// ReadManifest returns the sums of a checkpoint's files, by their names with slashes, as its manifest has
// them.
func ReadManifest(checkpoint string) (sums map[string]durable.Sum, err error) {
	raw, err := regular.ReadFile(filepath.Join(checkpoint, ManifestName))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &sums); err != nil {
		return nil, fmt.Errorf("%s of %s: %w", ManifestName, checkpoint, err)
	}
	return sums, nil
}

// Dir is the path of a run's folder. Files are read when a method is called.
type Dir string

// Path returns the path of a file by its name with slashes, which is relative to the folder or absolute.
func (d Dir) Path(name string) string {
	path := filepath.FromSlash(name)
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(string(d), path)
}

// Checkpoint returns the name of the checkpoint of a step, for Path.
func Checkpoint(step int) string { return Checkpoints + "/" + StepPrefix + strconv.Itoa(step) }

// Config reads the configuration of the run as config.ReadStored does: it may be that of an
// earlier version. removed lists keys that do not exist any more, which have no effect. Without
// a configuration the error wraps fs.ErrNotExist.
func (d Dir) Config() (c config.Config, removed []string, err error) {
	name := d.Path(ConfigName)
	raw, err := regular.ReadFile(name)
	if err != nil {
		return c, nil, fmt.Errorf("rundir: %w", err)
	}
	return config.ReadStored(name, raw)
}

// Events yields the events in metrics.jsonl in order, none without the file. A line that is not
// an event is an error, after which the next line follows. An incomplete last line is an
// error that wraps ErrTorn.
func (d Dir) Events(yield func(track.Event, error) bool) {
	raw, err := regular.ReadFile(d.Path(MetricsName))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		yield(track.Event{}, fmt.Errorf("rundir: %w", err))
		return
	}
	for number := 1; len(raw) > 0; number++ {
		line, rest, whole := bytes.Cut(raw, []byte("\n"))
		raw = rest
		e, err := track.ParseEvent(line)
		if !whole {
			e, err = track.Event{}, ErrTorn
		}
		if err != nil {
			err = fmt.Errorf("rundir: %s: line %d: %w", d.Path(MetricsName), number, err)
		}
		if !yield(e, err) {
			return
		}
	}
}

// Steps lists the steps that have a checkpoint, complete or not, the newest first.
func (d Dir) Steps() ([]int, error) { return Numbered(d.Path(Checkpoints), StepPrefix, "") }

// Metrics returns the metrics of a training step.
func (d Dir) Metrics(step int) (track.Metrics, error) {
	for e, err := range d.Events {
		if err != nil && !errors.Is(err, ErrTorn) {
			return nil, err
		}
		if e.Kind == track.KindStep && e.Step == step {
			return e.Metrics, nil
		}
	}
	return nil, fmt.Errorf("rundir: %s has no metrics of step %d", d.Path(MetricsName), step)
}

// Lock locks the folder, which need not be that of a run, against other processes until unlock is
// called or the process ends in any way. If another process has the lock, the error wraps
// ErrBusy.
func (d Dir) Lock() (unlock func() error, err error) {
	release, held, err := filelock.TryLock(d.Path(".lock"))
	if err == nil && held {
		err = ErrBusy
	}
	if err != nil {
		return nil, fmt.Errorf("rundir: %s: %w", d, err)
	}
	return func() error { release(); return nil }, nil
}

// Numbered lists the numbers n of the folders prefix<n>suffix in a folder, the largest first; none
// if it does not exist. Links to folders count.
func Numbered(dir, prefix, suffix string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("rundir: %w", err)
	}
	var all []int
	for _, e := range entries {
		n, ok := Number(e.Name(), prefix, suffix)
		if !ok {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && info.IsDir() {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b int) int { return b - a })
	return all, nil
}

// Number reads the number, without leading zeros, in a name of the form prefix<n>suffix. ok is false for
// another name.
func Number(name, prefix, suffix string) (n int, ok bool) {
	digits := strings.TrimSuffix(strings.TrimPrefix(name, prefix), suffix)
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0 && name == prefix+strconv.Itoa(n)+suffix
}

// The ends of the names of files with recorded episodes, and with the scores of their tokens.
const episodesEnd, scoresEnd = ".parquet", ".scores.parquet"

// EpisodesName returns the name of the file with the episodes of a step.
func EpisodesName(step int) string { return StepPrefix + strconv.Itoa(step) + episodesEnd }

// ScoresName returns the name of the file with the scores of a step's tokens.
func ScoresName(step int) string { return StepPrefix + strconv.Itoa(step) + scoresEnd }

// StepOf returns the step of a file of episodes or of scores by its name. ok is false for
// another file.
func StepOf(name string) (step int, scores, ok bool) {
	if step, ok = Number(name, StepPrefix, episodesEnd); ok {
		return step, false, true
	}
	step, ok = Number(name, StepPrefix, scoresEnd)
	return step, true, ok
}
