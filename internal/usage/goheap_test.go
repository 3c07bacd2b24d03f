package usage

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGarbageFollowsTheCollectorsTarget, but is at most as much as what is in use.
func TestGarbageFollowsTheCollectorsTarget(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for percent, want := range map[int]int64{50: 1500, 100: 2000, 400: 2000, -1: 2000} {
		debug.SetGCPercent(percent)
		require.Equal(t, want, WithGarbage(1000), percent)
	}
}
