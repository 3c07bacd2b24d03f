//go:build unix

package signals

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestACrashIsNoWrongCommandLine: it ends the program with SIGABRT instead of exit code 2.
func TestACrashIsNoWrongCommandLine(t *testing.T) {
	const variable = "VAGEN_TEST_CRASH"
	if os.Getenv(variable) != "" {
		syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
		AbortOnCrash()
		go func() { panic("a crash") }()
		select {}
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestACrashIsNoWrongCommandLine$")
	c.Env = append(os.Environ(), variable+"=1")
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
	status, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.True(t, status.Signaled(), "exit code %d", status.ExitStatus())
	require.Equal(t, syscall.SIGABRT, status.Signal())
	require.Contains(t, string(out), "a crash")
}
