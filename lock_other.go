//go:build !unix

package vagen

import "os"

// lockFile leaves it to the user that one process at a time works in a folder.
func lockFile(*os.File) error { return nil }
