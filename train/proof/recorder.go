package proof

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"vagen/internal/durable"
	"vagen/internal/silent"
	"vagen/internal/unmade"
	"vagen/train/rundir"
	"vagen/train/track"
)

// Recorder writes the chained file of a run. It is safe for concurrent use.
//
// As a track.Sink it must come before the one that writes metrics.jsonl: then every event
// in metrics.jsonl is in the chain, whenever the process stops.
type Recorder struct {
	dir string

	mu        sync.Mutex
	file      *os.File // nil after Close
	previous  string
	rollbacks int
	failed    error // first error
}

var (
	_ track.Sink  = (*Recorder)(nil)
	_ track.Ender = (*Recorder)(nil)
)

// Open opens the chained file of a run's folder to append to it; a last line that is
// incomplete is removed. A chain that is damaged is continued with a warning, because
// Verify reports the damage, and training must not stop. Callers add a line of kind start
// or resume first.
func Open(dir string, log *slog.Logger) (*Recorder, error) {
	f, err := os.OpenFile(filepath.Join(dir, FileName), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("proof: %w", err)
	}
	r := &Recorder{dir: dir, file: f}
	raw, err := io.ReadAll(f)
	if err == nil {
		whole := raw[:bytes.LastIndexByte(raw, '\n')+1]
		if len(whole) < len(raw) {
			err = os.Truncate(f.Name(), int64(len(whole))) // Windows truncates no file that is open for appending
		}
		if c := Parse(whole); len(c.Damage) > 0 {
			silent.Log(log).Warn("the record of the run is damaged", "file", f.Name(), "err", c.Damage[0])
		}
		if lines := bytes.Split(whole, []byte("\n")); len(lines) > 1 {
			r.previous = chained(lines[len(lines)-2])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("proof: %w", errors.Join(err, f.Close()))
	}
	return r, nil
}

// Empty reports whether the chain has no line yet.
func (r *Recorder) Empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.previous == ""
}

// Begin adds a line of kind start or resume. rollbacks is the number of rollbacks so far.
func (r *Recorder) Begin(l Line, rollbacks int) error {
	r.mu.Lock()
	r.rollbacks = rollbacks
	r.mu.Unlock()
	return r.Add(l)
}

// Add adds a line. Previous, Hash and Rollbacks are set. After an error the chain cannot be
// continued, and the error is returned again.
func (r *Recorder) Add(l Line) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.failed != nil:
		return r.failed
	case r.file == nil:
		return fmt.Errorf("%w: %s", unmade.Closed("proof.Recorder", "Open"), filepath.Join(r.dir, FileName))
	}
	l.Previous, l.Rollbacks = r.previous, r.rollbacks
	raw, err := l.encode()
	if err == nil {
		_, err = r.file.Write(append(raw, '\n'))
	}
	if err == nil && (l.Kind == KindStart || l.Kind == KindResume || l.Kind == track.KindSave || l.Kind == KindEnd) {
		err = r.file.Sync()
	}
	if err != nil {
		r.failed = fmt.Errorf("proof: %s: %w", filepath.Join(r.dir, FileName), err)
		return r.failed
	}
	r.previous = l.Hash
	return nil
}

// AddFile adds the SHA-256 of a file that the run wrote.
func (r *Recorder) AddFile(step int, path string) error {
	s, err := durable.SumOf(path)
	if err != nil {
		return fmt.Errorf("proof: %w", err)
	}
	name, err := nameIn(r.dir, path)
	if err != nil {
		return fmt.Errorf("proof: %w", err)
	}
	return r.Add(Line{Kind: KindFile, Step: step, Files: map[string]string{name: s.SHA256}})
}

// nameIn returns the name of a file in the chain: relative to the run's folder if it is in
// it, so that the folder can be moved, else absolute.
func nameIn(dir, path string) (string, error) {
	from, err1 := filepath.Abs(dir)
	to, err2 := filepath.Abs(path)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(from, to); err == nil && filepath.IsLocal(rel) {
		to = rel
	}
	return filepath.ToSlash(to), nil
}

// Event implements track.Sink.
func (r *Recorder) Event(e track.Event) error {
	l := Line{Kind: e.Kind, Step: e.Step}
	switch e.Kind {
	case track.KindRollback:
		r.mu.Lock()
		r.rollbacks = int(e.Metrics["train/rollbacks"])
		r.mu.Unlock()
		return r.Add(l)
	case track.KindSave:
		var err error
		if l.Checkpoint, l.Files, err = sumsOf(r.dir, e.Step); err != nil {
			return err
		}
	}
	l.Metrics = metricsHash(e)
	return r.Add(l)
}

// metricsHash is the hash of an event's line in metrics.jsonl without metrics of the
// machine.
func metricsHash(e track.Event) string { return sum(track.Line(e, track.MachineMetric)) }

// Ended implements track.Ender: it records the end of a complete run.
func (r *Recorder) Ended(err error) {
	if err == nil {
		_ = r.Add(Line{Kind: KindEnd}) // Close returns the error
	}
}

// Close implements track.Sink. Further calls do nothing.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := errors.Join(r.failed, r.file.Close())
	r.file = nil
	return err
}

// ManifestSum returns the SHA-256 of a checkpoint's manifest, which has those of all other
// files; "" if there is no manifest.
func ManifestSum(checkpoint string) (string, error) {
	s, err := durable.SumOf(filepath.Join(checkpoint, rundir.ManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("proof: checkpoint: %w", err)
	}
	return s.SHA256, nil
}

// sumsOf returns the hash of a checkpoint's manifest, and the hashes in it. They are empty
// for a run that starts from the checkpoint of another run, whose save is reported again.
func sumsOf(dir string, step int) (manifest string, files map[string]string, err error) {
	folder := rundir.Dir(dir).Path(rundir.Checkpoint(step))
	if manifest, err = ManifestSum(folder); manifest == "" {
		return "", nil, err
	}
	sums, err := rundir.ReadManifest(folder)
	files = map[string]string{}
	for name, s := range sums {
		files[rundir.Checkpoint(step)+"/"+name] = s.SHA256
	}
	return manifest, files, err
}

// modelFiles are the endings of files that a model consists of.
var modelFiles = map[string]bool{".json": true, ".safetensors": true, ".txt": true, ".jinja": true, ".model": true}

// inputFiles returns the files that a run reads, by their use. Folders are folders of
// models, of which the files that a model consists of are included.
func inputFiles(paths map[string]string) map[string]string {
	files := map[string]string{}
	for use, path := range paths {
		entries, err := os.ReadDir(path)
		if err != nil { // a file, or missing
			files[use] = path
		}
		for _, e := range entries {
			if modelFiles[filepath.Ext(e.Name())] {
				files[use+"/"+e.Name()] = filepath.Join(path, e.Name())
			}
		}
	}
	return files
}

// SumInputs returns the SHA-256 of the files that a run reads, by their use, such as
// model/config.json for paths["model"].
func SumInputs(ctx context.Context, paths map[string]string) (map[string]string, error) {
	out := map[string]string{}
	for name, path := range inputFiles(paths) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s, err := durable.SumOf(path)
		if err != nil {
			return nil, fmt.Errorf("proof: inputs: %w", err)
		}
		out[name] = s.SHA256
	}
	return out, nil
}
