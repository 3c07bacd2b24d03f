// Package fused has custom functions for XLA's CPU backend: the decoding step of a decoder block, that of a gated delta
// rule, this rule over whole rows, forward and backward, the product of a few rows with a matrix, with weights in
// float32, bfloat16 or int8, that of large matrices, attention of whole rows, forward, a block's parts before and after
// it, log-probs and entropies of a head, and the choice of the next tokens; all else is in float32, but for the rows
// that meet int8 weights, which are rounded to 8 bits, too.
//
// Decoding few rows is bound by reading all weights once per token. XLA's products
// take up to four times as long as that, and between them it runs some thirty small
// operations per block. These functions read weights sequentially at full memory
// bandwidth and do all other arithmetic between two products at once.
//
// Rows that may not see their own token are those of responses that have ended. A block leaves them as they are, so
// that they take no time. The graph computes other outputs for them; they are not read.
//
// A head's logits of 512 rows and 50,000 tokens are 100 MB, whose pages the system clears each time. Scores computes
// them some thousand tokens at a time, and keeps only sums.
//
// XLA stores the scores of attention of all heads, masked ones included, and passes over them several times: for 128
// rows of 300 tokens 650 MB, whose pages the system clears for each layer. Attention keeps a block of them in the cache.
//
// A block's parts over whole rows are thirty operations, some of a few microseconds, of which XLA gives each to its
// threads anew. Opening and Closing give a thread some tokens, for which it computes them all, in its cache.
//
// XLA takes longer to choose a token from 50,000 logits than a layer of a small model takes: it passes over them for each
// sum, and computes two logarithms for each. Choice needs a logarithm only for tokens that may be better than the best
// one so far.
//
// They are written in C, compiled by cgo with the vector extensions that GCC and
// Clang share, and registered with a plugin through PJRT's FFI extension; programs
// call them by custom calls, which package device inserts. The graphs that they
// replace (package model) define what they compute, and tests compare the two. With
// a plugin without that extension, or a processor without AVX2, the graphs run.
//
// Results do not depend on the number of threads or on the scheduling.
package fused

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// Variable is the environment variable that disables the functions when it is 0.
const Variable = "VAGEN_KERNELS"

// Names of the functions in a program.
const (
	Block     = "vagen_decoder_block"
	DeltaStep = "vagen_delta_step"
	DeltaRule = "vagen_delta_rule"
	Product   = "vagen_product"
	Scores    = "vagen_scores"
	Attention = "vagen_attention"
	Choice    = "vagen_choice"
	Gemm      = "vagen_gemm"
	Opening   = "vagen_block_opening"
	Closing   = "vagen_block_closing"
)

// Unpack is the name of a kernel that is never called: its input is a packed form of its output, a matrix, which the
// other functions read instead.
const Unpack = "unpack"

// Like is the name of a kernel that is never called: products of a program that has it have the bits of so many rows
// as its setting RowBits says, which may be fewer than theirs.
const (
	Like    = "like"
	RowBits = "as"
)

// The layout of packed matrices: outputs side by side in a panel, and in int8 weights of an output side by side, and
// rows of bytes that hold the scales of a panel's outputs.
const (
	Panel  = 64
	Quad   = 4
	Scales = 4
)

// MaxRows is the largest number of rows for which products and blocks use the functions: XLA's products improve with
// the number of rows.
const MaxRows = 128

// SumsLeft and SumsRight are a Gemm's settings: the axes of its two matrices that it sums over.
const (
	SumsLeft  = "left"
	SumsRight = "right"
)

// Multiplies reports whether Gemm is used for a product of two matrices [m, k] and [k, n], instead of XLA. It is faster
// with AVX-512, if numbers are used often enough to be worth packing.
func Multiplies(m, n, k int) bool { return usesAVX512() && min(m, n) >= 256 && k >= 64 }

// WholeRows reports whether Opening and Closing compute a product of m rows of tokens with a matrix [n, k]. Without
// AVX-512, where XLA's products are as fast, only many rows are worth the packing of weights.
func WholeRows(m, n, k int) bool {
	return Multiplies(m, n, k) || m >= 2048 && n >= 256 && k >= 64
}

// ScoreRows is the least number of rows for which Scores is used: with fewer, packing the output head takes longer
// than it saves.
const ScoreRows = 64

// CheckVariable refuses values of Variable that mean nothing.
func CheckVariable() error {
	if v := os.Getenv(Variable); v != "" && v != "0" && v != "1" {
		return fmt.Errorf("$%s is %q, must be 0, or 1 or empty for kernels", Variable, v)
	}
	return nil
}

// Able reports whether this build and this processor can run the functions and
// they are not disabled.
func Able() bool { return os.Getenv(Variable) != "0" && able() }

// AllowAVX512 sets whether functions use AVX-512 where the processor has it, and returns whether they did. Results
// have the same bits without: tests compare them.
func AllowAVX512(allow bool) bool { return allowAVX512(allow) }

var registered atomic.Bool

// Registered reports whether programs for XLA's CPU may call the functions.
func Registered() bool { return registered.Load() }

// Register registers the functions with the CPU plugin that was loaded from path. If
// it fails, programs do not use them.
func Register(path string) error {
	if os.Getenv(Variable) == "0" {
		return errors.New("fused: disabled by $" + Variable)
	}
	err := register(path)
	registered.Store(err == nil) // if a second plugin rejects them, none uses them
	if err != nil {
		return fmt.Errorf("fused: %w", err)
	}
	return nil
}
