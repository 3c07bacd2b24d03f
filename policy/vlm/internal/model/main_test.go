package model

import (
	"os"
	"testing"
)

// TestMain runs the tests on programs that LLVM does not optimise, unless XLA's flags are set: they compare numbers of
// graphs within tolerances, and half of their time would go to LLVM. Optimised programs of whole models are compared
// with recorded numbers in package vlmtest.
func TestMain(m *testing.M) {
	const flags = "XLA_FLAGS"
	if os.Getenv(flags) == "" {
		_ = os.Setenv(flags, "--xla_backend_optimization_level=0")
	}
	os.Exit(m.Run())
}
