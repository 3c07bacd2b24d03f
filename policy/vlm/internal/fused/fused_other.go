//go:build !cgo || !(linux || darwin)

package fused

import "errors"

func able() bool { return false }

func allowAVX512(bool) bool { return false }

func usesAVX512() bool { return false }

func register(string) error {
	return errors.New("fused: not supported by this build; needs cgo on Linux or macOS")
}
