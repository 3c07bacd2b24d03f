//go:build !unix

package plugin

import "os/exec"

// killChildrenOnCancel does nothing, because no plugin can be installed on other systems.
func killChildrenOnCancel(*exec.Cmd) {}
