//go:build unix

package signals

import (
	"os"
	"syscall"
)

// warnings are the signals with which schedulers warn a program before they kill it.
var warnings = []os.Signal{syscall.SIGUSR1}
