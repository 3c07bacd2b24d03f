//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package safetensors

import "os"

// mapFile returns no mapping: views are read into memory instead.
func mapFile(*os.File, int64) ([]byte, error) { return nil, nil }

func unmapFile([]byte) error { return nil }
