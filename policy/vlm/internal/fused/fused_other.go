//go:build !cgo || !(linux || darwin)

package fused

import "errors"

func able() bool { return false }

func register(string) error { return errors.New("needs cgo, on Linux or macOS") }
