package store

import (
	"errors"
	"fmt"
	"iter"
	"os"

	"vagen/internal/regular"
	"vagen/internal/unmade"
	"vagen/rollout"
)

const (
	versionKey = "vagen.trajectories"
	version    = "1"

	maxEpisodes = 1 << 24
)

// ErrFormat means that a file was not written by this package, or is damaged.
var ErrFormat = errors.New("not a file of trajectories")

// Writer writes a file of trajectories. It is not safe for concurrent use.
type Writer struct {
	*table[record] // without a temporary file after Close
	images         *folder
	failed         error
}

// Create starts a file in a folder that must exist. Close puts it in place; until
// then an older file of that name is unchanged.
func Create(path string) (*Writer, error) {
	out, err := createTable[record](path, versionKey, version)
	if err != nil {
		return nil, err
	}
	return &Writer{table: out, images: newFolder(path)}, nil
}

// Write adds trajectories of a training step, both usable and unusable ones. After an
// error the file cannot be completed.
func (w *Writer) Write(step int, ts ...*rollout.Trajectory) error {
	switch {
	case w.failed != nil:
		return w.failed
	case w.table == nil || w.tmp == nil:
		return unmade.Closed("store.Writer", "Create")
	}
	for i, t := range ts {
		if t == nil {
			w.failed = fmt.Errorf("store: %s: trajectory %d of step %d is nil", w.path, i, step)
			return w.failed
		}
		r, err := encode(step, t, w.images.storeImage)
		if err == nil {
			_, err = w.out.Write([]record{r})
		}
		if err != nil {
			w.failed = fmt.Errorf("store: %s: trajectory %d of step %d (group %d, index %d): %w", w.path, i, step, t.Group,
				t.Index, err)
			return w.failed
		}
	}
	return nil
}

// Close completes the file and puts it in place, replacing an older file of that
// name. After an error no file is added or changed, except for images. Further calls do nothing.
func (w *Writer) Close() error {
	if w.table == nil {
		return nil
	}
	return w.close(w.failed)
}

// Save writes one file.
func Save(path string, step int, ts []*rollout.Trajectory) error {
	w, err := Create(path)
	if err != nil {
		return err
	}
	return errors.Join(w.Write(step, ts...), w.Close())
}

// Stored is a trajectory with the step it was written with.
type Stored struct {
	Step int
	*rollout.Trajectory
}

// Reader reads a file of trajectories. It is not safe for concurrent use.
type Reader struct {
	path   string
	file   *os.File // nil after Close
	table  *input
	images *folder
	most   int64 // see Limit
}

// Open opens a file. The error wraps ErrFormat if this package did not write it.
func Open(path string) (*Reader, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return NewReader(f)
}

// NewReader reads an open file, which it closes with the reader, or at once if it fails.
// Images are those in the folder images beside the file's name. Errors are those of Open.
func NewReader(f *os.File) (*Reader, error) {
	table, err := readTable(f, versionKey, version, maxEpisodes)
	if err != nil {
		return nil, err
	}
	return &Reader{path: f.Name(), file: f, table: table, images: newFolder(f.Name())}, nil
}

// Lenient makes the reader return a missing image as Absent instead of an error.
// Files of a Gallery may lack images.
func (r *Reader) Lenient() {
	if r.images != nil {
		r.images.lenient = true
	}
}

// NamesOnly makes the reader return every image as Absent, without reading it. The names
// are those of the file, which may be any texts.
func (r *Reader) NamesOnly() {
	if r.images != nil {
		r.images.absent = true
	}
}

// Limit makes the reader refuse to read columns that take more than about a number of bytes in
// memory, with an error that wraps ErrFormat: a small file may contain much that is repeated. All
// and At read all columns, Summaries and Texts only theirs. 0 is no limit.
func (r *Reader) Limit(bytes int64) { r.most = bytes }

// Len returns the number of trajectories.
func (r *Reader) Len() int {
	if r.table == nil {
		return 0
	}
	return int(r.table.NumRows())
}

// All yields the trajectories in order. It ends after the first error, which wraps
// ErrFormat when the file is damaged. An image that is in both a turn and a row is
// one value.
func (r *Reader) All() iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		i := 0
		for one, err := range each[record](r.table, r.most) {
			var s Stored
			if err == nil {
				s, err = decode(one, r.images.fetch)
			}
			if err != nil {
				yield(Stored{}, fmt.Errorf("store: %s: trajectory %d: %w", r.path, i, err))
				return
			}
			if !yield(s, nil) {
				return
			}
			i++
		}
	}
}

// Step reads all trajectories, which must be of a step.
func (r *Reader) Step(step int) ([]*rollout.Trajectory, error) {
	var out []*rollout.Trajectory
	for s, err := range r.All() {
		if err == nil && s.Step != step {
			err = fmt.Errorf("store: %s: trajectory %d is of step %d, must be of step %d", r.path, len(out), s.Step,
				step)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, s.Trajectory)
	}
	return out, nil
}

// At reads the ith trajectory.
func (r *Reader) At(i int) (Stored, error) {
	fail := func(err error) (Stored, error) {
		return Stored{}, fmt.Errorf("store: %s: trajectory %d: %w", r.path, i, err)
	}
	if i < 0 || i >= r.Len() {
		return fail(fmt.Errorf("the file has %d", r.Len()))
	}
	in, err := rowsWithin[record](r.table, r.most)
	if err == nil {
		err = seek(in, i)
	}
	if err != nil {
		return fail(err)
	}
	var one [1]record
	if n, err := next(in, one[:]); n == 0 {
		return fail(err)
	}
	s, err := decode(&one[0], r.images.fetch)
	if err != nil {
		return fail(err)
	}
	return s, nil
}

// Close closes the file. Further calls do nothing.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}

// Load reads a whole file.
func Load(path string) ([]Stored, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []Stored
	for s, err := range r.All() {
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}
