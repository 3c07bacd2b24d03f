package store

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"

	"vagen/internal/durable"
	"vagen/internal/parquetsize"
)

// table is a parquet file that gets its name only when it is complete.
type table[T any] struct {
	path string
	tmp  *os.File
	out  *parquet.GenericWriter[T]
}

// createTable starts a file with a format version in its metadata, and removes what a killed process left of it.
func createTable[T any](path, key, version string) (*table[T], error) {
	durable.RemoveUnfinished(path)
	tmp, err := durable.CreateTemp(path)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	out := parquet.NewGenericWriter[T](tmp, parquet.KeyValueMetadata(key, version), parquet.Compression(&parquet.Zstd))
	return &table[T]{path: path, tmp: tmp, out: out}, nil
}

// close completes the file and puts it in place. If failed is not nil, it removes the
// file instead.
func (t *table[T]) close(failed error) error {
	if t.tmp == nil {
		return nil
	}
	tmp, err := t.tmp, failed
	t.tmp = nil
	if err == nil {
		err = t.out.Close()
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err = durable.Commit(tmp, t.path, err); err != nil {
		return fmt.Errorf("store: %s: %w", t.path, err)
	}
	return nil
}

// errNoFile is the error of a file that is to be read and is nil.
var errNoFile = errors.New("store: the file is nil, must be open")

// readTable reads the footer of a file of createTable with at most limit rows. It closes
// the file if that fails.
func readTable(f *os.File, key, version string, limit int64) (*input, error) {
	if f == nil {
		return nil, errNoFile
	}
	info, err := f.Stat()
	if err == nil {
		var in *input
		if in, err = openTable(f, info.Size(), key, version, limit); err == nil {
			return in, nil
		}
	}
	return nil, fmt.Errorf("store: %s: %w", f.Name(), errors.Join(err, f.Close()))
}

// input is a file that is read, with the sizes of its columns.
type input struct {
	*parquet.File
	sizes map[string]parquetsize.Column
}

func openTable(r io.ReaderAt, size int64, key, version string, limit int64) (_ *input, err error) {
	defer rescue(&err)
	if err := parquetsize.Footer(r, size); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	in, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if v, ok := in.Lookup(key); !ok || v != version {
		return nil, fmt.Errorf("%w: metadata key %s is %q, must be %q", ErrFormat, key, v, version)
	}
	if n := in.NumRows(); n < 0 || n > limit {
		return nil, fmt.Errorf("%w: it has %d rows, at most %d are allowed", ErrFormat, n, limit)
	}
	sizes, err := parquetsize.Measure(in, r, size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return &input{in, sizes}, nil
}

// rescue converts a panic to an error: the library may panic on a damaged file.
func rescue(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: it is damaged: %v", ErrFormat, p)
	}
}

func rows[T any](in *input) (out *parquet.GenericReader[T], err error) {
	defer rescue(&err)
	return parquet.NewGenericReader[T](in.File), nil
}

// next reads one record.
func next[T any](in *parquet.GenericReader[T], one []T) (n int, err error) {
	defer rescue(&err)
	n, err = in.Read(one)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if n == 0 && err == nil {
		err = fmt.Errorf("%w: the file has fewer rows than its footer states", ErrFormat)
	}
	return n, err
}

// seek makes a row the next one.
func seek[T any](in *parquet.GenericReader[T], row int) (err error) {
	defer rescue(&err)
	if err := in.SeekToRow(int64(row)); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return nil
}
