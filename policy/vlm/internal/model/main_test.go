package model

import (
	"os"
	"testing"

	"vagen/policy/vlm/internal/devicetest"
)

// Graphs are held against plain Go within tolerances.
func TestMain(m *testing.M) {
	devicetest.WithoutLLVM()
	os.Exit(m.Run())
}
