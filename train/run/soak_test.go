//go:build !race

// The race detector makes these steps slow and changes the size of the heap; the other
// tests run the same loop under it.

package run

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/tinymodel"
	"vagen/policy/vlm"
	"vagen/train/track"
)

// soakSteps is the number of training steps and the backend: VAGEN_SOAK steps on the best
// available one, or few steps in pure Go, which compiles nothing.
func soakSteps(t *testing.T) (steps int, backend string) {
	t.Helper()
	text := os.Getenv("VAGEN_SOAK")
	if text == "" {
		return 18, "go"
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "VAGEN_SOAK is a number of training steps")
	return max(n, 18), "auto"
}

// held is the size of the Go heap after garbage collection.
func held() int64 {
	for range 3 { // finalizers and pools need more than one collection
		runtime.GC()
	}
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// TestTrainingTakesFlatMemory runs the whole loop, with everything that it writes:
// pictures of new levels in every step, a separate critic, a reference, checkpoints in
// the background, recorded episodes, all files of metrics. After the first steps the Go heap
// does not grow, and the memory of the process grows only by newly compiled
// executables.
func TestTrainingTakesFlatMemory(t *testing.T) {
	steps, backend := soakSteps(t)
	dir := t.TempDir()
	c := tinyRun("concat")
	c.Model.Backend, c.Env.Config["format_reward"], c.Env.Config["tile_size"] = backend, 0.1, 28
	c.Critic.Kind, c.Algorithm.KLInReward, c.Data.TrainBatch, c.Agent.Actor.MiniBatch = "separate", true, 4, 8
	c.Rollout.MaxTurns, c.Agent.Actor.Optim.Rate = 2, 1e-4
	c.Trainer.Steps, c.Trainer.SaveFreq, c.Trainer.TestFreq = steps, 5, -1
	c.Trainer.Logger = []string{"jsonl", "tensorboard"}
	played := filepath.Join(dir, "trajectories")
	c.Trainer.RolloutDir, c.Trainer.LogImage.Enable = &played, true
	c.Agent.Model.Path = tinymodel.Create(t, tinymodel.Shape(), lakeWords, 3)
	r, err := Open(t.Context(), c, Options{Dir: filepath.Join(dir, "run")})
	require.NoError(t, err)
	m := r.Learner.(*vlm.Model)

	var heap, resident, executables []float64
	tokens := 0.0
	r.Sinks = append(r.Sinks, track.SinkFunc(func(e track.Event) error {
		if e.Kind != track.KindStep {
			return nil
		}
		heap = append(heap, float64(held()))
		resident = append(resident, e.Metrics["perf/host_memory_mb"]*1e6)
		executables = append(executables, e.Metrics["perf/executables"])
		tokens = e.Metrics["train/context_tokens"] + e.Metrics["train/response_tokens"]
		return nil
	}))
	require.NoError(t, r.Train(t.Context()))
	require.NoError(t, r.Close())
	// The minimum of each third: single steps may include a checkpoint or a table.
	i, j := least(heap, steps/3, 2*steps/3), least(heap, 2*steps/3, steps)
	grown, more, compiled := heap[j]-heap[i], resident[j]-resident[i], executables[j]-executables[i]
	t.Logf("soak: %d steps of %.0f tokens on %s: Go heap %.3f MB, %+.3f MB between the second third and the last; resident %.1f MB, %+.1f MB; %.0f executables, %+.0f",
		steps, tokens, m.Backend(), heap[j]/1e6, grown/1e6, resident[j]/1e6, more/1e6, executables[j], compiled)
	// New processed pictures alone are 0.1 MB in every step. A graph that is compiled
	// leaves 0.05 MB on the Go heap, and one for XLA 0.1 MB.
	each := 0.07e6
	if m.Backend() != "go" {
		each = 0.13e6
	}
	require.Less(t, grown, 0.3e6+each*compiled)
	require.Less(t, more, 64e6+4e6*compiled) // heaps vary by some megabytes
}

// least is the index of the smallest number of xs[from:to].
func least(xs []float64, from, to int) int {
	at := from
	for i := from; i < to; i++ {
		if xs[i] < xs[at] {
			at = i
		}
	}
	return at
}
