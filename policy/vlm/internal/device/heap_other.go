//go:build !linux || !cgo

package device

// Trim does nothing here.
func Trim() {}
