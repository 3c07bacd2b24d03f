// Package wandb writes the metrics of a run in the offline format of Weights & Biases.
package wandb

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/blake2b"

	"vagen/internal/settings"
	"vagen/internal/wandb"
	"vagen/train/config"
	"vagen/train/track"
)

// Sink writes metrics in the offline format of Weights & Biases: a folder
// offline-run-<time>-<id> that `wandb sync` uploads and `wandb leet` shows locally. The
// sink itself sends nothing.
//
// W&B requires increasing steps, so all events of a training step become one row, which
// is written at the first event of the next step or in Close. Imitation has no training
// steps: its last metrics are in the row of step 0. A rollback removes the rows of the
// undone steps from the file.
type Sink struct {
	mu      sync.Mutex
	file    *wandb.File
	dir     string
	now     func() time.Time
	step    int
	row     map[string]float64 // nil for none
	written []writtenRow       // in order of steps
	code    int                // exit code of the run
	stopped bool
}

// writtenRow is the position in the file of a step's row.
type writtenRow struct {
	step int
	at   wandb.Mark
}

// New creates the run's file below dir, with the configuration. A resumed run finds its
// existing folder, keeps its id and rewrites its file, so the caller must first send the
// sink the earlier events of the run.
func New(dir string, c *config.Config) (*Sink, error) {
	start := time.Now()
	found, err := filepath.Glob(filepath.Join(dir, offlinePrefix+"*-*"))
	if err != nil {
		return nil, fmt.Errorf("wandb: %w", err)
	}
	var path, id string
	if len(found) > 0 { // names start with the time, so the last is the newest
		path = found[len(found)-1]
		id = path[strings.LastIndexByte(path, '-')+1:]
	} else {
		sum := blake2b.Sum256([]byte(strings.Join([]string{dir, c.Trainer.Project, c.Trainer.Experiment, strconv.FormatInt(start.UnixNano(), 36)}, "\x1f")))
		id = hex.EncodeToString(sum[:4])
		path = filepath.Join(dir, offlinePrefix+start.UTC().Format("20060102_150405")+"-"+id)
	}
	if err := os.MkdirAll(filepath.Join(path, "files"), 0o755); err != nil {
		return nil, fmt.Errorf("wandb: %w", err)
	}
	f, err := wandb.Create(filepath.Join(path, "run-"+id+".wandb"), wandb.Run{
		ID: id, Project: c.Trainer.Project, Name: c.Trainer.Experiment, Start: start, Config: nested(config.SafeKeys(c)),
	})
	if err != nil {
		return nil, fmt.Errorf("wandb: %w", err)
	}
	return &Sink{file: f, dir: path, now: time.Now}, nil
}

const offlinePrefix = "offline-run-"

// Dir returns the folder for `wandb sync`.
func (w *Sink) Dir() string { return w.dir }

// nested converts dotted keys to nested maps.
func nested(keys []settings.Key) map[string]any {
	out := map[string]any{}
	for _, k := range keys {
		at := out
		names := strings.Split(k.Path, ".")
		for _, name := range names[:len(names)-1] {
			inner, ok := at[name].(map[string]any)
			if !ok {
				inner = map[string]any{}
				at[name] = inner
			}
			at = inner
		}
		at[names[len(names)-1]] = k.Value
	}
	return out
}

// Event implements Sink.
func (w *Sink) Event(e track.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Kind == track.KindRollback {
		return w.cut(e.Step)
	}
	step := e.Step
	if e.Kind == track.KindImitate {
		step = 0
	}
	if len(e.Metrics) == 0 {
		return nil
	}
	if w.row != nil && step > w.step {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if w.row == nil {
		w.row, w.step = map[string]float64{}, step
	}
	maps.Copy(w.row, e.Metrics)
	return nil
}

// cut removes the rows of later steps.
func (w *Sink) cut(step int) error {
	if w.step > step {
		w.row = nil
	}
	keep := slices.IndexFunc(w.written, func(r writtenRow) bool { return r.step > step })
	if keep < 0 {
		return nil
	}
	from := w.written[keep].at
	w.written = w.written[:keep]
	if err := w.file.Rewind(from); err != nil {
		return fmt.Errorf("wandb: %w", err)
	}
	return nil
}

// flush writes the row of a step.
func (w *Sink) flush() error {
	if w.row == nil {
		return nil
	}
	row := w.row
	w.row = nil
	w.written = append(w.written, writtenRow{w.step, w.file.Mark()})
	if err := w.file.Log(w.step, w.now(), row); err != nil {
		return fmt.Errorf("wandb: %w", err)
	}
	return nil
}

// Ended implements Ender: W&B distinguishes failed runs from finished ones.
func (w *Sink) Ended(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.code = 1
	}
}

// Close implements Sink.
func (w *Sink) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return nil
	}
	w.stopped = true
	return errors.Join(w.flush(), w.file.Finish(w.code))
}
