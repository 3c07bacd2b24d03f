package advantage

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReuseAllocatesNothing runs every estimator twice on a batch.
func TestReuseAllocatesNothing(t *testing.T) {
	batch := shape{64, 2048, true}.batch()
	for _, name := range Names() {
		est := named(t, name, testParams())
		var out Result
		require.Zero(t, testing.AllocsPerRun(10, func() { estimateOrFail(t, est, &out, batch) }), name)
	}
}

func estimateOrFail(t *testing.T, est Estimator, out *Result, b *Batch) {
	require.NoError(t, est.Estimate(out, b), "%T", est)
}
