package vagen

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"image/png"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"vagen/internal/redact"
	"vagen/rollout"
)

var (
	// ErrRunExists means that a folder already holds a run.
	ErrRunExists = errors.New("the folder already holds a run")
	// ErrRunBusy means that another process works in the folder.
	ErrRunBusy = errors.New("another process works on the run")
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

// RunFolder is where a run writes: config.yaml, metrics.jsonl, curve.png,
// checkpoints and episodes.
type RunFolder struct {
	Path string
	// Changed lists how the configuration differs from that of the run, which Lock
	// replaces.
	Changed []string

	read    []byte // config.yaml as OpenRun found it
	pending []byte // what Lock writes there; nil for nothing
}

// CreateRun makes the folder of a new run and writes its configuration there,
// without its secrets. A folder with a run in it is an ErrRunExists.
func CreateRun(path string, c *Config) (*RunFolder, error) {
	exists := fmt.Errorf("vagen: %w: %s (choose another, resume it with trainer.resume_mode=auto, or remove it)", ErrRunExists, path)
	name := filepath.Join(path, configName)
	if _, err := os.Stat(name); err == nil {
		return nil, exists
	}
	raw, err := c.stored()
	if err != nil {
		return nil, fmt.Errorf("vagen: %w", err)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("vagen: %w", err)
	}
	unlock, err := LockFolder(path)
	if err != nil {
		return nil, err
	}
	if _, err = os.Stat(name); err == nil { // another process was faster
		return nil, errors.Join(exists, unlock())
	}
	if err := errors.Join(writeFile(name, raw), unlock()); err != nil {
		return nil, fmt.Errorf("vagen: %w", err)
	}
	return &RunFolder{Path: path}, nil
}

// Lock keeps other processes from working in the folder until unlock is called or
// the process ends, however it does. ErrRunBusy says that another one does. A changed
// configuration that OpenRun accepted is written once the folder is locked; if
// another process replaced the one that it was compared with, Lock fails with
// ErrOtherConfig.
func (f *RunFolder) Lock() (unlock func() error, err error) {
	if unlock, err = LockFolder(f.Path); err != nil {
		return nil, err
	}
	if err := f.settleConfig(); err != nil {
		return nil, errors.Join(err, unlock())
	}
	return unlock, nil
}

// settleConfig writes the configuration that OpenRun accepted.
func (f *RunFolder) settleConfig() error {
	if f.read == nil {
		return nil
	}
	name := filepath.Join(f.Path, configName)
	now, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("vagen: %w", err)
	}
	if !bytes.Equal(now, f.read) {
		return fmt.Errorf("vagen: %w: %s was replaced by another process in the meantime; start again", ErrOtherConfig, name)
	}
	if f.pending == nil {
		return nil
	}
	if err := writeFile(name, f.pending); err != nil {
		return fmt.Errorf("vagen: %w", err)
	}
	f.read, f.pending = f.pending, nil
	return nil
}

// LockFolder keeps other processes that lock the folder out of it until unlock is
// called or the process ends. ErrRunBusy says that another one has the lock.
func LockFolder(path string) (unlock func() error, err error) {
	file, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("vagen: %w", err)
	}
	if err := lockFile(file); err != nil {
		return nil, fmt.Errorf("vagen: %s: %w", path, errors.Join(err, file.Close()))
	}
	return file.Close, nil
}

// RunID is the random name that the run in a folder was given, "" where there is none.
func RunID(path string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(path, idName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("vagen: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// ID is the random name of the run, which is made and kept in run.id when it is
// first asked for. The folder must be locked.
func (f *RunFolder) ID() (string, error) {
	id, err := RunID(f.Path)
	if err != nil || id != "" {
		return id, err
	}
	id = rand.Text()
	if err := writeFile(filepath.Join(f.Path, idName), []byte(id+"\n")); err != nil {
		return "", fmt.Errorf("vagen: %w", err)
	}
	return id, nil
}

// Inherit puts the metrics of another run, up to a checkpoint of it, into the folder,
// whose own are lost: the history of a run that branches off. A folder without
// metrics lends nothing.
func (f *RunFolder) Inherit(from string, at *State) error {
	path := filepath.Join(from, metricsName)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		if raw, _, err = keep(raw, func(e Event) bool { return after(e, at) }); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err == nil {
		err = writeFile(filepath.Join(f.Path, metricsName), raw)
	}
	if err != nil {
		return fmt.Errorf("vagen: metrics: %w", err)
	}
	return nil
}

// Metrics opens metrics.jsonl, to which a run that goes on appends.
func (f *RunFolder) Metrics() (*JSONLines, error) {
	return NewJSONLines(filepath.Join(f.Path, metricsName))
}

// Checkpoints are those of the run, in the folder checkpoints, as many as its
// configuration keeps.
func (f *RunFolder) Checkpoints(c *Config, log *slog.Logger) *Checkpoints {
	whole, actors := c.Kept()
	return &Checkpoints{Dir: filepath.Join(f.Path, "checkpoints"), Keep: whole, KeepActors: actors, Log: log}
}

// shownTurn is a turn as episodes are written out.
type shownTurn struct {
	Observation string             `json:"observation"`
	Images      []string           `json:"images"`
	Response    string             `json:"response"`
	Stop        string             `json:"stop"`
	Actions     []string           `json:"actions"`
	Reward      map[string]float64 `json:"reward"`
	Metrics     map[string]float64 `json:"metrics"`
}

type shownEpisode struct {
	Env     string      `json:"env"`
	Seed    int64       `json:"seed"`
	Success bool        `json:"success"`
	End     string      `json:"end"`
	Error   string      `json:"error,omitempty"`
	Return  float64     `json:"return"`
	Turns   []shownTurn `json:"turns"`
}

// SaveEpisodes writes the first n episodes, with their images as PNG files, to
// episodes/step_<n>.
func (f *RunFolder) SaveEpisodes(step int, ts []*rollout.Trajectory, n int) error {
	dir := filepath.Join(f.Path, "episodes", fmt.Sprintf("step_%d", step))
	if n < 1 || len(ts) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("vagen: episodes: %w", err)
	}
	for i, t := range ts[:min(n, len(ts))] {
		if err := writeEpisode(dir, fmt.Sprintf("episode_%d_", i), t); err != nil {
			return fmt.Errorf("vagen: episodes: %w", err)
		}
	}
	return nil
}

// writeEpisode writes an episode and its pictures, whose names begin with a prefix.
func writeEpisode(dir, prefix string, t *rollout.Trajectory) error {
	e := shownEpisode{Env: t.Env, Seed: t.Seed, Success: t.Success, End: string(t.End), Return: t.Return()}
	if t.Err != nil {
		e.Error = redact.Text(t.Err.Error())
	}
	for k, turn := range t.Turns {
		s := shownTurn{
			Observation: turn.Observation.Text, Response: turn.Response, Stop: string(turn.Stop), Actions: turn.Parsed.Actions,
			Reward: map[string]float64{}, Metrics: turn.Metrics,
		}
		for _, p := range turn.Reward {
			s.Reward[p.Name] += p.Value
		}
		for j, im := range turn.Observation.Images {
			name := fmt.Sprintf("%sturn_%d_%d.png", prefix, k, j)
			out, err := os.Create(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			if err := errors.Join(png.Encode(out, im), out.Close()); err != nil {
				return err
			}
			s.Images = append(s.Images, name)
		}
		e.Turns = append(e.Turns, s)
	}
	name := strings.TrimSuffix(prefix, "_")
	if name == "" {
		name = "episode"
	}
	return writeJSON(filepath.Join(dir, name+".json"), e)
}
