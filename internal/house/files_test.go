package house_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// opens matches calls that open a file for reading, whatever it is: a named pipe or a device
// then hangs the program.
var opens = regexp.MustCompile(`\bos\.(Open|ReadFile)\(|\bioutil\.|\.LoadX509KeyPair\(`)

// opensFolders are the files that open folders, to make what they hold durable.
var opensFolders = []string{
	"internal/safetensors/map_unix.go",
}

// TestFilesAreOpenedInOnePlace: only internal/regular, which refuses what is not a regular
// file, opens files for reading. Tests' own packages and the examples are excepted.
func TestFilesAreOpenedInOnePlace(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		require.NoError(t, err)
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if slices.Contains(
				[]string{"internal/regular", "internal/golden", "internal/traintest", "examples"}, name,
			) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			slices.Contains(opensFolders, name) {
			return nil
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Empty(t, opens.FindString(string(raw)), "%s: use regular.Open or regular.ReadFile", name)
		seen++
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, seen, 100)
	for _, name := range opensFolders {
		raw, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		require.Regexp(t, opens, string(raw), name)
	}
}
