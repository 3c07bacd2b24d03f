package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/internal/durable"
)

// TestAFileThatCannotBeReplacedIsKept, and nothing of the new content is left.
func TestAFileThatCannotBeReplacedIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, durable.WriteFile(path, []byte("old")))
	require.NoError(t, durable.WriteFile(path, []byte("new")))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "new", string(raw))
	taken := filepath.Join(filepath.Dir(path), "folder")
	require.NoError(t, os.MkdirAll(filepath.Join(taken, "full"), 0o755))
	require.EqualError(t, durable.WriteFile(taken, []byte("x")), taken+": not a regular file")
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 2)
}

// TestSeveralCallsWriteOneFile, of which all succeed; what a killed process left of the file is removed.
func TestSeveralCallsWriteOneFile(t *testing.T) {
	dir := t.TempDir()
	path, of := filepath.Join(dir, "file"), func(i int) string { return strings.Repeat(strconv.Itoa(i), 1<<16) }
	for _, left := range []string{".file.1-1.tmp", ".file.json.1-1.tmp"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, left), nil, 0o644))
	}
	var calls sync.WaitGroup
	for i := range 4 {
		calls.Go(func() {
			for range 8 {
				assert.NoError(t, durable.WriteFile(path, []byte(of(i))))
			}
		})
	}
	calls.Wait()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, []string{of(0), of(1), of(2), of(3)}, string(raw))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.Equal(t, ".file.json.1-1.tmp", entries[0].Name(), "it is of another file")
	plain, err1 := os.Stat(filepath.Join(dir, entries[0].Name()))
	info, err2 := os.Stat(path)
	require.NoError(t, errors.Join(err1, err2))
	require.Equal(t, plain.Mode(), info.Mode())
}

// TestAFolderIsReplacedAsAWhole: whenever the process is killed, the old or the new folder is there after Recover.
func TestAFolderIsReplacedAsAWhole(t *testing.T) {
	final := filepath.Join(t.TempDir(), "folder")
	put := func(dir, text string) {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644))
	}
	require.NoError(t, durable.Recover(final), "nothing is there")
	for _, text := range []string{"first", "second"} {
		require.NoError(t, durable.WriteFolder(final, func(dir string) error { put(dir, text); return nil }))
	}
	full := errors.New("the disk is full")
	require.ErrorIs(t, durable.WriteFolder(final, func(dir string) error { put(dir, "third"); return full }), full)
	for _, killed := range []func(){
		func() {},
		func() { put(final+durable.Unfinished, "third") },
		func() { // between the renames
			require.NoError(t, os.Rename(final, final+durable.Discarded))
			put(final+durable.Unfinished, "third")
		},
		func() { put(final+durable.Discarded, "first") },
	} {
		killed()
		require.NoError(t, durable.Recover(final))
		raw, err := os.ReadFile(filepath.Join(final, "file"))
		require.NoError(t, err)
		require.Equal(t, "second", string(raw))
		entries, err := os.ReadDir(filepath.Dir(final))
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
}
