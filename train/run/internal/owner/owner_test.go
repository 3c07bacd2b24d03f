package owner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/train/rundir"
)

// TestRecordIsReplacedAsAWhole: the record of a folder's run is replaced by another one, also if it
// was cut short, and leaves no other file.
func TestRecordIsReplacedAsAWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, rundir.OwnerName)
	for _, before := range []string{"", "one\n/a\n"} {
		testkit.Write(t, path, before)
		want := Run{"two", "/b"}
		require.NoError(t, want.Write(dir))
		got, ok, err := Recorded(dir)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, got)
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, files, 1)
	}
}
