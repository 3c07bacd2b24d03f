package usage

import (
	"bytes"
	"strconv"

	"vagen/internal/regular"
)

// PeakResident returns the maximum resident memory of the process in bytes. It does not use
// getrusage, whose value starts with the peak of the parent process.
func PeakResident() int64 {
	raw, err := regular.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(raw) {
		if f := bytes.Fields(line); len(f) == 3 && string(f[0]) == "VmHWM:" {
			n, err := strconv.ParseInt(string(f[1]), 10, 53)
			if err != nil {
				return 0
			}
			return n << 10
		}
	}
	return 0
}
