package advantage

import (
	"math"
	"runtime"
	"testing"
)

// TestReuseAllocatesNothing runs every estimator on a batch that is large
// enough to be spread over goroutines.
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

// TestGoroutinesAllocateNothing: AllocsPerRun measures one processor only. On several,
// the runtime creates goroutines until each processor has spare ones; after that a call
// must not allocate. A closure per call would show in every one.
func TestGoroutinesAllocateNothing(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	batch := shape{64, 2048, true}.batch()
	if batch.Tokens()/tokensPerWorker < 2 {
		t.Fatal("the batch is too small for a second goroutine")
	}
	for _, est := range []Estimator{Masked{Gamma: 1, Lambda: 1, Whiten: true}, GRPO{NormByStd: true}, TrajectoryToken{Gamma: 1, Lambda: 1, Whiten: true}} {
		var out Result
		const calls = 60
		for range 4 * calls {
			estimateOrFail(t, est, &out, batch)
		}
		// On a busy machine the runtime occasionally creates more goroutines, so one
		// try of several without an allocation is enough.
		fewest := uint64(math.MaxUint64)
		for range 5 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range calls {
				estimateOrFail(t, est, &out, batch)
			}
			runtime.ReadMemStats(&after)
			fewest = min(fewest, after.Mallocs-before.Mallocs)
		}
		if fewest >= calls {
			t.Errorf("%T: %d allocations in %d calls", est, fewest, calls)
		}
	}
}

func estimateOrFail(t *testing.T, est Estimator, out *Result, b *Batch) {
	if err := est.Estimate(out, b); err != nil {
		t.Fatalf("%T: %v", est, err)
	}
}
