//go:build unix && !linux

package usage

import (
	"runtime"
	"syscall"
)

// PeakResident is the most memory that the process has had in RAM, in bytes.
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
