package usage

import (
	"bytes"
	"os"
	"strconv"

	"vagen/internal/regular"
)

// Resident returns the process's resident memory in bytes, 0 if the system does not
// report it.
func Resident() int64 {
	raw, err := regular.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(raw)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
