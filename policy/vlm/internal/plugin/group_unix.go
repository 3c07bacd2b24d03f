//go:build unix

package plugin

import (
	"os/exec"
	"syscall"
)

// killChildrenOnCancel makes cancellation of a command's context also kill its child
// processes: "python" is often a script that starts another program.
func killChildrenOnCancel(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
