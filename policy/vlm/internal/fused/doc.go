// Package fused has functions of our own for XLA's CPU: the step of a decoder block,
// and the product of a few rows with a matrix, in float32.
//
// Decoding few rows is a matter of reading all weights once for each token, and XLA's
// products take up to four times as long as that; between them it runs some thirty
// small operations a block. These functions read weights in long runs, as fast as memory
// gives them, and leave nothing between two products but arithmetic.
//
// They are C, compiled by cgo with the vector extensions that GCC and Clang share, and
// become known to a plugin through PJRT's FFI extension; a program calls them by custom
// calls (package device puts those in). What they compute is written down in the graphs
// whose place they take (package model), and tests hold the two against each other. A
// plugin without that extension, or a processor without AVX2, runs the graphs.
//
// Results do not depend on how many threads there are, nor on which of them did what.
package fused

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// Variable, set to 0 in the environment, leaves everything to XLA.
const Variable = "VAGEN_KERNELS"

// Names of the functions in a program.
const (
	Block   = "vagen_decoder_block"
	Product = "vagen_product"
)

// MostRows is the most rows for which the functions are to be used: at 32 XLA, whose
// products are better the more rows there are, takes as long.
const MostRows = 16

// Bits of a Block's attribute "has".
const (
	HasQKVBias = 1 << iota
	HasQKNorm
	HasOutBias
	HasMLPBias
)

// Able reports whether this build and this processor can run the functions, and nobody
// has switched them off.
func Able() bool { return os.Getenv(Variable) != "0" && able() }

var registered atomic.Bool

// Registered reports whether programs for XLA's CPU may call the functions.
func Registered() bool { return registered.Load() }

// Register makes the functions known to a CPU plugin that has been loaded from the
// path. Programs do without them where it fails.
func Register(path string) error {
	if os.Getenv(Variable) == "0" {
		return errors.New("fused: switched off by $" + Variable)
	}
	err := register(path)
	registered.Store(err == nil) // a second plugin that refuses them is reason to do without
	if err != nil {
		return fmt.Errorf("fused: %w", err)
	}
	return nil
}
