package house_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// opens matches calls that open a file for reading, whatever it is: a named pipe or a device
// then hangs the program.
var opens = regexp.MustCompile(`\bos\.(Open|ReadFile)\(|\bioutil\.|\.LoadX509KeyPair\(`)

// excepted are internal/regular itself, tests' own packages and the examples.
var excepted = regexp.MustCompile(`^(internal/(regular|golden|traintest|testkit)|examples)/`)

// TestFilesAreOpenedInOnePlace: only internal/regular, which refuses what is not a regular
// file, opens files for reading.
func TestFilesAreOpenedInOnePlace(t *testing.T) {
	seen := 0
	for name, text := range sources(t) {
		if !excepted.MatchString(name) {
			require.Empty(t, opens.FindString(text), "%s: use regular.Open or regular.ReadFile", name)
			seen++
		}
	}
	require.Greater(t, seen, 100)
}
