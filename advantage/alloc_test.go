package advantage

import "testing"

// TestReuseAllocatesNothing runs every estimator twice on a batch.
func TestReuseAllocatesNothing(t *testing.T) {
	batch := shape{64, 2048, true}.batch()
	for _, name := range Names() {
		est := named(t, name, testParams())
		var out Result
		if n := testing.AllocsPerRun(10, func() { estimateOrFail(t, est, &out, batch) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

func estimateOrFail(t *testing.T, est Estimator, out *Result, b *Batch) {
	if err := est.Estimate(out, b); err != nil {
		t.Fatalf("%T: %v", est, err)
	}
}
