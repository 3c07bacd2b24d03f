//go:build !linux

package usage

// Resident returns 0: not supported here.
func Resident() int64 { return 0 }
