package run

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"vagen/internal/durable"
	"vagen/internal/regular"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/proof"
	"vagen/train/run/internal/owner"
	"vagen/train/rundir"
	"vagen/train/track"
)

var (
	// ErrExists means that a folder already contains a run.
	ErrExists = owner.ErrExists
	// ErrBusy means that another process uses the folder.
	ErrBusy = rundir.ErrBusy
)

// exportFolder is the folder of exports in that of a run.
const exportFolder = "hf"

// Folder is the folder of a run, with config.yaml, metrics.jsonl, curve.png, checkpoints
// and episodes.
type Folder struct {
	Path string
	// Changed lists how the new configuration differs from that of the run. Lock replaces
	// the run's.
	Changed []string

	read    []byte // config.yaml as OpenFolder read it
	pending []byte // new config.yaml that Lock writes; nil for no change
}

// CreateFolder creates the folder of a new run and writes the configuration there,
// without secrets. If the folder contains a run, the error wraps ErrExists.
func CreateFolder(path string, c *config.Config) (*Folder, error) {
	exists := fmt.Errorf("run: %w: %s (choose another folder, resume the run with trainer.resume_mode=auto, or remove it)",
		ErrExists, path)
	name := filepath.Join(path, rundir.ConfigName)
	if _, err := os.Stat(name); err == nil {
		return nil, exists
	}
	raw, err := c.Stored()
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	unlock, err := rundir.Dir(path).Lock()
	if err != nil {
		return nil, err
	}
	if _, err = os.Stat(name); err == nil { // another process created a run meanwhile
		return nil, errors.Join(exists, unlock())
	}
	if err := errors.Join(durable.WriteFile(name, raw), unlock()); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	return &Folder{Path: path}, nil
}

func (f *Folder) dir() rundir.Dir { return rundir.Dir(f.Path) }

// resumed reports whether the folder held a run when it was opened.
func (f *Folder) resumed() bool { return f.read != nil }

// unrecorded reports whether the folder has metrics, but no chain of the lines that a run records.
func (f *Folder) unrecorded() bool {
	filled := func(name string) bool {
		info, err := os.Stat(filepath.Join(f.Path, name))
		return err == nil && info.Size() > 0
	}
	return filled(rundir.MetricsName) && !filled(proof.FileName)
}

// Lock locks the folder against other processes until unlock is called or the process
// ends in any way. If another process has the lock, the error wraps ErrBusy. After
// locking it writes a changed configuration that OpenFolder accepted; if another process
// changed config.yaml since OpenFolder, the error wraps ErrOtherConfig. A policy in best_actor that a
// killed process was replacing is there again.
func (f *Folder) Lock() (unlock func() error, err error) {
	if unlock, err = f.dir().Lock(); err != nil {
		return nil, err
	}
	if err := f.writePending(); err != nil {
		return nil, errors.Join(err, unlock())
	}
	if err := durable.Recover(f.dir().Path(rundir.BestName)); err != nil {
		return nil, errors.Join(fmt.Errorf("run: %w", err), unlock())
	}
	return unlock, nil
}

// writePending writes the changed configuration that OpenFolder accepted.
func (f *Folder) writePending() error {
	if f.read == nil {
		return nil
	}
	name := f.dir().Path(rundir.ConfigName)
	now, err := regular.ReadFile(name)
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if !bytes.Equal(now, f.read) {
		return fmt.Errorf("run: %w: another process has changed %s meanwhile; start again", ErrOtherConfig, name)
	}
	if f.pending == nil {
		return nil
	}
	if err := durable.WriteFile(name, f.pending); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	f.read, f.pending = f.pending, nil
	return nil
}

// ID returns the random ID of the run. The first call generates it and writes run.id.
// The folder must be locked.
func (f *Folder) ID() (string, error) {
	id, err := owner.IDOf(f.Path)
	if err != nil || id != "" {
		return id, err
	}
	id = rand.Text()
	if err := durable.WriteFile(f.dir().Path(rundir.IDName), []byte(id+"\n")); err != nil {
		return "", fmt.Errorf("run: %w", err)
	}
	return id, nil
}

// inherit replaces the folder's metrics by those of another run up to a checkpoint of
// it, as the history of a run that starts from that checkpoint.
func (f *Folder) inherit(from string, at *train.State) error {
	_, err := f.keep(filepath.Join(from, rundir.MetricsName), at)
	return err
}

// keep replaces the folder's metrics by the lines of a file up to a checkpoint, and returns their events. A
// file that does not exist has none.
func (f *Folder) keep(path string, at *train.State) ([]track.Event, error) {
	raw, err := regular.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("run: metrics: %w", err)
	}
	kept, events, err := track.KeepLines(raw, func(e track.Event) bool { return after(e, at) })
	if err != nil {
		return nil, fmt.Errorf("run: metrics: %s: %w", path, err)
	}
	if err := durable.WriteFile(f.dir().Path(rundir.MetricsName), kept); err != nil {
		return nil, fmt.Errorf("run: metrics: %w", err)
	}
	return events, nil
}

// Metrics opens metrics.jsonl for appending.
func (f *Folder) Metrics() (*track.JSONLines, error) {
	return track.NewJSONLines(f.dir().Path(rundir.MetricsName))
}

// Checkpoints returns the checkpoints of the run, in the folder checkpoints. The
// configuration sets how many are kept.
func (f *Folder) Checkpoints(c *config.Config, log *slog.Logger) *Checkpoints {
	whole, actors := cmp.Or(c, new(config.Config)).Kept()
	return &Checkpoints{Dir: f.dir().Path(rundir.Checkpoints), Keep: whole, KeepActors: actors, Log: log}
}

// SaveEpisodes writes the first n episodes, with their images as PNG files, to
// episodes/step_<n>, in the place of those that are there.
func (f *Folder) SaveEpisodes(step int, ts []*rollout.Trajectory, n int) error {
	dir := filepath.Join(f.Path, rundir.Shown, rundir.StepPrefix+strconv.Itoa(step))
	if n < 1 || len(ts) == 0 {
		return nil
	}
	// A resumed run repeats a validation, and may save fewer episodes.
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return fmt.Errorf("run: episodes: %w", err)
	}
	for i, t := range ts[:min(n, len(ts))] {
		if err := store.WriteEpisode(dir, fmt.Sprintf("episode_%d_", i), t); err != nil {
			return fmt.Errorf("run: episodes: %w", err)
		}
	}
	return nil
}
