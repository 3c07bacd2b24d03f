//go:build !windows

package plugin

import (
	"os/exec"
	"syscall"
)

// endWithChildren makes the end of a command's context end what it started,
// too: what is called python is often a script that starts another.
func endWithChildren(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
