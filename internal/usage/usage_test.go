//go:build linux

package usage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/usage"
)

func TestResidentMemoryGrowsWithUse(t *testing.T) {
	const size = 64 << 20
	before := usage.Resident()
	require.Positive(t, before)
	x := make([]byte, size)
	for i := 0; i < size; i += 1024 {
		x[i] = 1
	}
	after := usage.Resident()
	require.Greater(t, after-before, int64(size/2))
	require.GreaterOrEqual(t, usage.PeakResident(), after*9/10) // counted in batches of pages
	require.Positive(t, usage.CPUTime())
	require.EqualValues(t, 1, x[size-1024])
}
