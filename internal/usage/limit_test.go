package usage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheSmallestLimitCounts: that of the machine, of the process's group, or of a parent
// group.
func TestTheSmallestLimitCounts(t *testing.T) {
	const meminfo = "MemTotal:       16000000 kB\nMemFree:         4000000 kB\n"
	for name, test := range map[string]struct {
		files map[string]string
		limit int64
		says  string
	}{
		"a system that does not say": {nil, 0, ""},
		"the machine alone":          {map[string]string{"proc/meminfo": meminfo}, 16000000 << 10, "/proc/meminfo"},
		"its group": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "1000000\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 1000000,
			"/sys/fs/cgroup/a/b/memory.max"},
		"the group above": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "1:name=systemd:/x\n0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "2000000\n"}, 2000000,
			"/sys/fs/cgroup/a/memory.max"},
		"a container": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "3000000\n"},
			3000000, "/sys/fs/cgroup/memory.max"},
		"a group with more than the machine": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "99000000000000\n"}, 16000000 << 10, "/proc/meminfo"},
		"files of another form": {map[string]string{"proc/meminfo": "MemTotal: much\n", "proc/self/cgroup": "0::\n",
			"sys/fs/cgroup/memory.max": "1\n"}, 0, ""},
	} {
		root := t.TempDir()
		for file, text := range test.files {
			file = filepath.Join(root, file)
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		}
		limit, says := limitUnder(root)
		require.Equal(t, test.limit, limit, name)
		require.Equal(t, test.says, says, name)
	}
}
