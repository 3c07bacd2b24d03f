package plugin

import "os/exec"

// endWithChildren does nothing: no wheels are known for Windows.
func endWithChildren(*exec.Cmd) {}
