//go:build unix

package svg

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/regular"
	"vagen/internal/testkit"
)

func TestDataIsReadOnlyFromRegularFilesBelowItsFolder(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.svg")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err := load(pipe)
	require.ErrorIs(t, err, regular.ErrNotRegular)
	_, err = load(dir)
	require.ErrorIs(t, err, ErrDataset, "the pipe is ignored, so there is no sample")
	_, err = FromConfig(map[string]any{"data_dir": dir, "split": "../../.."})
	testkit.Error(t, err, env.ErrOption, "not below data_dir")
}
