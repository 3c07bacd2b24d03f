// Package xla starts XLA from a PJRT plugin. Without cgo it is empty.
package xla
