//go:build unix && !linux

package usage

import (
	"runtime"
	"syscall"
)

// PeakResident returns the maximum resident memory of the process in bytes.
func PeakResident() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(u.Maxrss)
	}
	return int64(u.Maxrss) * 1024
}
