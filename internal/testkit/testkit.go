// Package testkit has what the tests of many packages repeat: files that must be written or read, and errors that
// must wrap another one and say something. A failure ends the test.
package testkit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Write writes a file and returns its path.
func Write[S ~string | ~[]byte](t testing.TB, path string, content S) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

// File writes a file to a temporary folder of its own and returns its path.
func File[S ~string | ~[]byte](t testing.TB, name string, content S) string {
	t.Helper()
	return Write(t, filepath.Join(t.TempDir(), name), content)
}

// Read returns the bytes of a file.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	return raw
}

// Text returns the text of a file.
func Text(t testing.TB, path string) string {
	t.Helper()
	return string(Read(t, path))
}

// JSON decodes a JSON text.
func JSON[V any, S ~string | ~[]byte](t testing.TB, text S) (v V) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v), "%s", text)
	return v
}

// Error checks that an error wraps another one and contains all of the texts.
func Error(t testing.TB, err, target error, texts ...string) {
	t.Helper()
	require.ErrorIs(t, err, target)
	for _, text := range texts {
		require.ErrorContains(t, err, text)
	}
}
