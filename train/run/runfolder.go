package run

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"vagen/internal/durable"
	"vagen/internal/filelock"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/track"
)

var (
	// ErrExists means that a folder already holds a run.
	ErrExists = errors.New("the folder already holds a run")
	// ErrBusy means that another process works in the folder.
	ErrBusy = errors.New("another process works on the run")
)

// Files of a run's folder; a checkpoint has its configuration, too.
const (
	configName  = "config.yaml"
	metricsName = "metrics.jsonl"
	lockName    = ".lock"
	idName      = "run.id"
	bestFolder  = "best_actor"

	exportFolder = "hf"
)

// Folder is where a run writes: config.yaml, metrics.jsonl, curve.png,
// checkpoints and episodes.
type Folder struct {
	Path string
	// Changed lists how the configuration differs from that of the run, which Lock
	// replaces.
	Changed []string

	read    []byte // config.yaml as OpenRun found it
	pending []byte // what Lock writes there; nil for nothing
}

// CreateFolder makes the folder of a new run and writes its configuration there,
// without its secrets. A folder with a run in it is an ErrRunExists.
func CreateFolder(path string, c *config.Config) (*Folder, error) {
	exists := fmt.Errorf("run: %w: %s (choose another, resume it with trainer.resume_mode=auto, or remove it)", ErrExists, path)
	name := filepath.Join(path, configName)
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
	unlock, err := LockFolder(path)
	if err != nil {
		return nil, err
	}
	if _, err = os.Stat(name); err == nil { // another process was faster
		return nil, errors.Join(exists, unlock())
	}
	if err := errors.Join(durable.WriteFile(name, raw), unlock()); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	return &Folder{Path: path}, nil
}

// resumed reports whether the folder held a run when it was opened.
func (f *Folder) resumed() bool { return f.read != nil }

// Lock keeps other processes from working in the folder until unlock is called or
// the process ends, however it does. ErrBusy says that another one does. A changed
// configuration that OpenRun accepted is written once the folder is locked; if
// another process replaced the one that it was compared with, Lock fails with
// ErrOtherConfig.
func (f *Folder) Lock() (unlock func() error, err error) {
	if unlock, err = LockFolder(f.Path); err != nil {
		return nil, err
	}
	if err := f.settleConfig(); err != nil {
		return nil, errors.Join(err, unlock())
	}
	return unlock, nil
}

// settleConfig writes the configuration that OpenRun accepted.
func (f *Folder) settleConfig() error {
	if f.read == nil {
		return nil
	}
	name := filepath.Join(f.Path, configName)
	now, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if !bytes.Equal(now, f.read) {
		return fmt.Errorf("run: %w: %s was replaced by another process in the meantime; start again", ErrOtherConfig, name)
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

// LockFolder keeps other processes that lock the folder out of it until unlock is
// called or the process ends. ErrBusy says that another one has the lock.
func LockFolder(path string) (unlock func() error, err error) {
	release, held, err := filelock.TryLock(filepath.Join(path, lockName))
	if err != nil {
		return nil, fmt.Errorf("run: %s: %w", path, err)
	}
	if held {
		return nil, fmt.Errorf("run: %s: %w", path, ErrBusy)
	}
	return func() error { release(); return nil }, nil
}

// FolderID is the random name that the run in a folder was given, "" where there is none.
func FolderID(path string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(path, idName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("run: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// ID is the random name of the run, which is made and kept in run.id when it is
// first asked for. The folder must be locked.
func (f *Folder) ID() (string, error) {
	id, err := FolderID(f.Path)
	if err != nil || id != "" {
		return id, err
	}
	id = rand.Text()
	if err := durable.WriteFile(filepath.Join(f.Path, idName), []byte(id+"\n")); err != nil {
		return "", fmt.Errorf("run: %w", err)
	}
	return id, nil
}

// Inherit puts the metrics of another run, up to a checkpoint of it, into the folder,
// whose own are lost: the history of a run that branches off. A folder without
// metrics lends nothing.
func (f *Folder) Inherit(from string, at *train.State) error {
	path := filepath.Join(from, metricsName)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		if raw, _, err = track.KeepLines(raw, func(e track.Event) bool { return after(e, at) }); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err == nil {
		err = durable.WriteFile(filepath.Join(f.Path, metricsName), raw)
	}
	if err != nil {
		return fmt.Errorf("run: metrics: %w", err)
	}
	return nil
}

// Metrics opens metrics.jsonl, to which a run that goes on appends.
func (f *Folder) Metrics() (*track.JSONLines, error) {
	return track.NewJSONLines(filepath.Join(f.Path, metricsName))
}

// Checkpoints are those of the run, in the folder checkpoints, as many as its
// configuration keeps.
func (f *Folder) Checkpoints(c *config.Config, log *slog.Logger) *Checkpoints {
	whole, actors := c.Kept()
	return &Checkpoints{Dir: filepath.Join(f.Path, "checkpoints"), Keep: whole, KeepActors: actors, Log: log}
}

// SaveEpisodes writes the first n episodes, with their images as PNG files, to
// episodes/step_<n>.
func (f *Folder) SaveEpisodes(step int, ts []*rollout.Trajectory, n int) error {
	dir := filepath.Join(f.Path, "episodes", fmt.Sprintf("step_%d", step))
	if n < 1 || len(ts) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("run: episodes: %w", err)
	}
	for i, t := range ts[:min(n, len(ts))] {
		if err := store.WriteEpisode(dir, fmt.Sprintf("episode_%d_", i), t); err != nil {
			return fmt.Errorf("run: episodes: %w", err)
		}
	}
	return nil
}
