//go:build unix

package procgroup

import (
	"io"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKillEndsWhatACommandLeft: the pipe that the child process holds open is closed.
func TestKillEndsWhatACommandLeft(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 & echo begun")
	KillOnCancel(cmd)
	Kill(cmd) // it was not started
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = cmd.Process.Wait()
	require.NoError(t, err)
	Kill(cmd)
	text, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Equal(t, "begun\n", string(text))
}
