//go:build cgo && linux && !debug

package linktest

// #cgo LDFLAGS: -Wl,-s
import "C"
