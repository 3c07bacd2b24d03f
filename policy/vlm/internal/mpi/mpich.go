//go:build mpi && mpich

package mpi

// The flags of each library are in a file of its own: Go's build cache does not distinguish packages that differ
// in conditional lines with pkg-config only.

// #cgo pkg-config: mpich
import "C"
