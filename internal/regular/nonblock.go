//go:build unix || windows

package regular

import "syscall"

// nonblock lets a named pipe be opened without a writer.
const nonblock = syscall.O_NONBLOCK
