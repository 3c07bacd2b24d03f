package model

import (
	"os"
	"testing"

	_ "vagen/internal/linktest"
	"vagen/policy/vlm/internal/devicetest"
)

// Graphs are held against plain Go within tolerances.
func TestMain(m *testing.M) {
	devicetest.WithoutLLVM()
	os.Exit(m.Run())
}
