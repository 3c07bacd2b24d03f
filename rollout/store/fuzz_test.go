package store

import (
	"bytes"
	"errors"
	"image"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzRead reads damaged tables: each is an error, or trajectories that can be
// stored.
func FuzzRead(f *testing.F) {
	path := filepath.Join(f.TempDir(), "a.parquet")
	require.NoError(f, Save(path, 1, trajectories(f)[:2]))
	raw, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(raw)
	require.NoError(f, Save(path, 1, nil))
	raw, err = os.ReadFile(path)
	require.NoError(f, err)
	f.Add(raw)
	f.Fuzz(func(t *testing.T, data []byte) { _ = readAll(t, data) })
}

// readAll reads a file that may be damaged and returns its error. Its memory is bounded by
// the size of the file, whatever sizes the file states: 2048 times, by
// internal/parquetsize, and several bytes for each value.
func readAll(t *testing.T, data []byte) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	defer func() {
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(128<<20+1<<14*len(data)))
	}()
	table, err := openTable(bytes.NewReader(data), int64(len(data)), versionKey, version, maxEpisodes)
	if err != nil {
		require.ErrorIs(t, err, ErrFormat)
		return err
	}
	dot := image.NewNRGBA(image.Rect(0, 0, 1, 1))
	in, err := rows[record](table)
	for n := 0; err == nil && n < 100; n++ {
		var one [1]record
		var got int
		if got, err = next(in, one[:]); got == 0 {
			break
		}
		tr, bad := decode(&one[0], func(string) (image.Image, error) { return dot, nil })
		if bad != nil {
			require.ErrorIs(t, bad, ErrFormat)
			continue
		}
		_, bad = encode(0, tr.Trajectory, func(image.Image) (string, error) { return "", nil })
		require.NoError(t, bad)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	require.ErrorIs(t, err, ErrFormat)
	return err
}
