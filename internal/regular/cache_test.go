package regular

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFilesAreReadOnceUntilTheyChange: those that could not be read are read again.
func TestFilesAreReadOnceUntilTheyChange(t *testing.T) {
	var c Cache[int]
	reads := 0
	path := filepath.Join(t.TempDir(), "file")
	get := func() int {
		v, err := c.Get(path, func(string) (int, error) { reads++; return reads, nil })
		require.NoError(t, err)
		return v
	}
	require.NoError(t, os.WriteFile(path, []byte("a"), 0o600))
	require.Equal(t, []int{1, 1}, []int{get(), get()})
	require.NoError(t, os.WriteFile(path, []byte("ab"), 0o600))
	require.Equal(t, []int{2, 2}, []int{get(), get()})
	bad := errors.New("bad")
	for range 2 {
		_, err := c.Get(path+"2", func(string) (int, error) { reads++; return 0, bad })
		require.Equal(t, bad, err)
	}
	require.Equal(t, 4, reads)
}
