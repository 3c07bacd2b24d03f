//go:build !linux

package device

func hugePages(addressRange) {}
