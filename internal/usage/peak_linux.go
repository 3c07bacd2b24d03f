package usage

import (
	"bytes"
	"os"
	"strconv"
)

// PeakResident is the most memory that the process has had in RAM, in bytes. What
// getrusage counts begins with the peak of the process that started this one.
func PeakResident() int64 {
	raw, err := os.ReadFile("/proc/self/status")
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
