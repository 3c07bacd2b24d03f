//go:build unix

package exestore

import (
	"io/fs"
	"os"
	"syscall"
)

// owner returns the user who owns a file, and whether that is this process's user or the
// administrator.
func owner(info fs.FileInfo) (uid int, mine bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, false
	}
	return int(s.Uid), int(s.Uid) == os.Geteuid() || s.Uid == 0
}
