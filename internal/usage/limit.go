package usage

import (
	"bytes"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"vagen/internal/regular"
)

// Limit returns the memory limit of the process in bytes, and the file that sets it: the
// machine's memory, or a lower limit of a control group (cgroup v2) of the process.
func Limit() (limit int64, says string) { return limitUnder("/") }

// limitUnder reads the system's files below root.
func limitUnder(root string) (limit int64, says string) {
	const machine = "/proc/meminfo"
	if limit = kilobytes(filepath.Join(root, machine), "MemTotal:"); limit > 0 {
		says = machine
	}
	for group := controlGroup(root); group != ""; group = parent(group) {
		file := path.Join("/sys/fs/cgroup", group, "memory.max")
		raw, err := regular.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue
		}
		// Without a limit the file contains "max", which is not a number.
		if n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err == nil && (limit == 0 || n < limit) {
			limit, says = n, file
		}
	}
	return limit, says
}

// kilobytes returns a figure of a file of the system in bytes, 0 if the file does not have it.
func kilobytes(path, name string) int64 {
	raw, _ := regular.ReadFile(path)
	for line := range bytes.Lines(raw) {
		if f := strings.Fields(string(line)); len(f) == 3 && f[0] == name && f[2] == "kB" {
			n, _ := strconv.ParseInt(f[1], 10, 53)
			return n << 10
		}
	}
	return 0
}

// controlGroup returns the process's control group, "" if it has none.
func controlGroup(root string) string {
	raw, _ := regular.ReadFile(filepath.Join(root, "/proc/self/cgroup"))
	for line := range bytes.Lines(raw) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "0::/"); ok {
			return path.Clean("/" + group)
		}
	}
	return ""
}

// parent returns the parent group, "" for the root.
func parent(group string) string {
	if group == "/" {
		return ""
	}
	return path.Dir(group)
}
