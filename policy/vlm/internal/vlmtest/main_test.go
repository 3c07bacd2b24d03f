package vlmtest_test

import (
	"testing"

	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/vlmtest"
)

// Where XLA is required, recorded numbers are compared with those of optimised programs, as runs compile them.
func TestMain(m *testing.M) {
	if !devicetest.Required() {
		devicetest.WithoutLLVM()
	}
	vlmtest.Main(m)
}
