package run

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"vagen/internal/regular"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/rundir"
	"vagen/train/track"
)

// ErrOtherConfig means that the configuration differs from that of the run.
var ErrOtherConfig = errors.New("the run was started with another configuration")

// OpenFolder opens the folder of a run to resume it. If the configuration differs from
// that of the run, the error wraps ErrOtherConfig and lists the differences, unless c has
// trainer.allow_config_change: then Changed lists them, and Lock replaces the folder's
// configuration. Keys that change no result, such as run.workers, may always differ. The
// number of steps may increase; it may decrease if no result of a step depends on it, but not
// below that of a checkpoint. If another process uses the folder, the error wraps
// ErrBusy.
func OpenFolder(path string, c *config.Config) (*Folder, error) {
	c = cmp.Or(c, new(config.Config))
	dir := rundir.Dir(path)
	name := dir.Path(rundir.ConfigName)
	raw, err := regular.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("run: no run in %s: %w", path, err)
	}
	done := 0
	saved, err := dir.Steps()
	if err != nil {
		return nil, err
	}
	if len(saved) > 0 {
		done = saved[0]
	}
	lines, err := compare(name, raw, c, done)
	if err != nil {
		return nil, err
	}
	f := &Folder{Path: path, Changed: lines, read: raw}
	if len(lines) > 0 {
		if f.pending, err = c.Stored(); err != nil {
			return nil, fmt.Errorf("run: %w", err)
		}
	}
	unlock, err := dir.Lock()
	if err != nil {
		return nil, err
	}
	return f, unlock()
}

// compare lists how a configuration differs from the one in a file, of a run that has done
// some steps. The number of steps may change as stepsChange says, and a run that measured kernels may
// resume with the file that it wrote: it could not be repeated byte for byte anyway. The rest
// needs trainer.allow_config_change. Keys that do not exist any more are listed.
func compare(name string, raw []byte, c *config.Config, done int) ([]string, error) {
	old, removed, err := config.ReadStored(name, raw)
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	lines := config.Differences(&old, c)
	note, refused := stepsChange(&old, c, done)
	measured := old.Model.AutotuneSum == "" && old.Model.Autotune != "" && old.Model.Autotune == c.Model.Autotune
	other := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return !refused && setsSteps(line) || measured && strings.HasPrefix(line, "model.autotune_sha256:")
	})
	if note != "" {
		lines = append(lines, note)
	}
	if refused {
		other = append(other, note)
	}
	if len(other) > 0 && !c.Trainer.AllowChange {
		return nil, fmt.Errorf("run: %w: %s (trainer.allow_config_change=true resumes with the new one):\n  %s",
			ErrOtherConfig, name, strings.Join(other, "\n  "))
	}
	return append(lines, removed...), nil
}

// fits compares a configuration with that of the checkpoint, as
// OpenFolder does with that of a folder, and lists the differences.
func (p *Checkpoint) fits(c *config.Config) ([]string, error) {
	return compare(filepath.Join(p.Path, rundir.ConfigName), p.Config, c, p.State.Step)
}

// Rewind removes the events after a checkpoint from metrics.jsonl, so that a run that
// resumes from it writes the same file as without the interruption. A nil checkpoint
// keeps nothing. It returns the remaining events, with the total number of steps, for
// sinks that need a run's history, such as a Curve. The event that the checkpoint was
// saved is not included: the Trainer that resumes from it emits it.
func (f *Folder) Rewind(from *train.State, total int) ([]track.Event, error) {
	events, err := f.keep(f.dir().Path(rundir.MetricsName), from)
	for i := range events {
		events[i].Total = total
	}
	return events, err
}

// lastSave is the latest step at which metrics.jsonl reports a checkpoint; ok is
// false when it reports none.
func (f *Folder) lastSave() (step int, ok bool, err error) {
	for e, err := range f.dir().Events {
		if err != nil && !errors.Is(err, rundir.ErrTorn) {
			return 0, false, fmt.Errorf("run: metrics: %w", err)
		}
		if e.Kind == track.KindSave {
			step, ok = max(step, e.Step), true
		}
	}
	return step, ok, nil
}

// after reports whether an event came after a checkpoint. Imitation comes before all
// steps; step 0 is saved after it and before the first validation. An interrupted run
// still has to do the validation and save that are due after its last step.
func after(e track.Event, from *train.State) bool {
	switch {
	case from == nil:
		return true
	case e.Kind == track.KindImitate:
		return false
	case from.Step == 0:
		return e.Kind != track.KindSave || e.Step > 0
	case e.Step == from.Step:
		return e.Kind == track.KindSave || from.Interrupted && e.Kind != track.KindStep
	default:
		return e.Step > from.Step
	}
}
