//go:build unix

// Package procgroup ends programs together with their child processes.
package procgroup

import (
	"os/exec"
	"syscall"
)

// KillOnCancel makes cancellation of a command's context also kill its child processes: "python" is
// often a script that starts another program. Systems that are not Unix kill the command alone.
func KillOnCancel(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// Kill ends the child processes that a command with KillOnCancel has left running. It must be called right
// after the command has ended, while its number is that of no other process.
func Kill(cmd *exec.Cmd) {
	if cmd.Process != nil { // it was started
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails if there are none
	}
}
