//go:build !unix

package exestore

import "io/fs"

// owner is not used: executables are kept on Linux only.
func owner(fs.FileInfo) (uid int, mine bool) { return -1, false }
