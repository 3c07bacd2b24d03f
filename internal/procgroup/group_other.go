//go:build !unix

package procgroup

import "os/exec"

// KillOnCancel does nothing: the command alone is killed.
func KillOnCancel(*exec.Cmd) {}

// Kill does nothing: the child processes of a command keep running.
func Kill(*exec.Cmd) {}
