//go:build !linux || !cgo

package device

// ReturnMemory does nothing here.
func ReturnMemory() (restore func()) { return func() {} }

// trim does nothing here.
func trim() {}
