package learn_test

import (
	"testing"

	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/vlmtest"
)

// Which device runs a program is what these tests vary, not the program.
func TestMain(m *testing.M) {
	devicetest.WithoutLLVM()
	vlmtest.Main(m)
}
