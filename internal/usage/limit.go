package usage

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Limit is the memory that the process may have, in bytes, and the file that says
// so: what the machine has, or less where a control group (cgroup v2) that the
// process is in allows less.
func Limit() (limit int64, says string) { return limitUnder("/") }

// limitUnder reads the system's files below root.
func limitUnder(root string) (limit int64, says string) {
	const machine = "/proc/meminfo"
	raw, _ := os.ReadFile(filepath.Join(root, machine))
	for line := range bytes.Lines(raw) {
		if f := strings.Fields(string(line)); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			if n, err := strconv.ParseInt(f[1], 10, 53); err == nil {
				limit, says = n<<10, machine
			}
		}
	}
	for group := controlGroup(root); group != ""; group = parent(group) {
		file := path.Join("/sys/fs/cgroup", group, "memory.max")
		raw, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue
		}
		// Without a limit it says max, which is no number.
		if n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err == nil && (limit == 0 || n < limit) {
			limit, says = n, file
		}
	}
	return limit, says
}

// controlGroup is the process's, "" where there is none.
func controlGroup(root string) string {
	raw, _ := os.ReadFile(filepath.Join(root, "/proc/self/cgroup"))
	for line := range bytes.Lines(raw) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "0::/"); ok {
			return path.Clean("/" + group)
		}
	}
	return ""
}

// parent is the group above, "" above the highest.
func parent(group string) string {
	if group == "/" {
		return ""
	}
	return path.Dir(group)
}
