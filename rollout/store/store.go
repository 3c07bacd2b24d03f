package store

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"

	"vagen/internal/parquetsize"
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
	path   string
	tmp    *os.File
	out    *parquet.GenericWriter[record]
	images *folder
	failed error
}

// Create starts a file in a folder that must exist. Close puts it in place; until
// then an older file of that name is unchanged.
func Create(path string) (*Writer, error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*.tmp")
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	out := parquet.NewGenericWriter[record](tmp, parquet.KeyValueMetadata(versionKey, version), parquet.Compression(&parquet.Zstd))
	return &Writer{path: path, tmp: tmp, out: out, images: newFolder(path)}, nil
}

// Write adds trajectories of a training step, both usable and unusable ones. After an
// error the file cannot be completed.
func (w *Writer) Write(step int, ts ...*rollout.Trajectory) error {
	if w.failed != nil {
		return w.failed
	}
	for i, t := range ts {
		r, err := encode(step, t, w.images.storeImage)
		if err == nil {
			_, err = w.out.Write([]record{r})
		}
		if err != nil {
			w.failed = fmt.Errorf("store: %s: trajectory %d of step %d (group %d, index %d): %w", w.path, i, step, t.Group, t.Index, err)
			return w.failed
		}
	}
	return nil
}

// Close completes the file and puts it in place, replacing an older file of that
// name. After an error no file is added or changed, except for images.
func (w *Writer) Close() error {
	if w.tmp == nil {
		return nil
	}
	tmp := w.tmp
	w.tmp = nil
	err := w.failed
	if err == nil {
		err = w.out.Close()
	}
	if err == nil {
		err = errors.Join(tmp.Chmod(0o644), tmp.Sync())
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), w.path)
	}
	if err != nil {
		return fmt.Errorf("store: %s: %w", w.path, errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
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
	file   *os.File
	table  *parquet.File
	images *folder
}

// Open opens a file. The error wraps ErrFormat if this package did not write it.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		var table *parquet.File
		if table, err = openTable(f, info.Size()); err == nil {
			return &Reader{path: path, file: f, table: table, images: newFolder(path)}, nil
		}
	}
	return nil, fmt.Errorf("store: %s: %w", path, errors.Join(err, f.Close()))
}

func openTable(r io.ReaderAt, size int64) (table *parquet.File, err error) {
	defer recoverPanic(&err)
	if err := parquetsize.Footer(r, size); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if table, err = parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if v, ok := table.Lookup(versionKey); !ok || v != version {
		return nil, fmt.Errorf("%w: metadata key %s is %q, must be %q", ErrFormat, versionKey, v, version)
	}
	if n := table.NumRows(); n < 0 || n > maxEpisodes {
		return nil, fmt.Errorf("%w: it has %d rows, at most %d are allowed", ErrFormat, n, maxEpisodes)
	}
	if err := parquetsize.Check(table, r, size); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return table, nil
}

// recoverPanic converts a panic to an error: the library may panic on a damaged file.
func recoverPanic(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: it is damaged: %v", ErrFormat, p)
	}
}

// Lenient makes the reader return a missing image as Absent instead of an error.
// Files of a Gallery may lack images.
func (r *Reader) Lenient() { r.images.lenient = true }

// Len returns the number of trajectories.
func (r *Reader) Len() int { return int(r.table.NumRows()) }

// All yields the trajectories in order. It ends after the first error, which wraps
// ErrFormat when the file is damaged. An image that is in both a turn and a row is
// one value.
func (r *Reader) All() iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		in, err := rows(r.table)
		for i := 0; ; i++ {
			var one [1]record
			n := 0
			if err == nil {
				n, err = next(in, one[:])
			}
			if n == 0 && errors.Is(err, io.EOF) {
				return
			}
			var s Stored
			if n == 1 {
				err = nil
				s.Step = int(one[0].Step)
				s.Trajectory, err = decode(&one[0], r.images.fetch)
			}
			if err != nil {
				yield(Stored{}, fmt.Errorf("store: %s: trajectory %d: %w", r.path, i, err))
				return
			}
			if !yield(s, nil) {
				return
			}
		}
	}
}

func rows(table *parquet.File) (in *parquet.GenericReader[record], err error) {
	defer recoverPanic(&err)
	return parquet.NewGenericReader[record](table), nil
}

// next reads one record.
func next(in *parquet.GenericReader[record], one []record) (n int, err error) {
	defer recoverPanic(&err)
	n, err = in.Read(one)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if n == 0 && err == nil {
		err = fmt.Errorf("%w: it ends early", ErrFormat)
	}
	return n, err
}

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }

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
