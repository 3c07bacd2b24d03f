//go:build !race || race_mu

package device_test

import (
	"testing"

	"vagen/policy/vlm/internal/devicetest"
)

// go-xla keeps pools per processor without locks, which is correct and which the
// race detector takes for a race; built with the tag race_mu it locks them.
func TestXLAServesSeveralGoroutines(t *testing.T) { runInParallel(t, devicetest.Best(t)) }
