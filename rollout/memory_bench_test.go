package rollout_test

import (
	"runtime"
	"testing"

	"vagen/mask"
	"vagen/rollout"
)

// BenchmarkHostMemory reports the host memory that a token of a trajectory uses until
// the step ends: 256 episodes of five turns, 1200 tokens each. Images and texts are
// not included.
func BenchmarkHostMemory(b *testing.B) {
	const episodes, turns, read, wrote = 256, 5, 200, 40
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		before := heap()
		kept := make([]*rollout.Trajectory, episodes)
		for i := range kept {
			row := rollout.Row{}
			for turn := range turns {
				kind := mask.Observation
				if turn == 0 {
					kind = mask.Prompt
				}
				if err := row.AppendContext(kind, make([]int32, read)...); err != nil {
					b.Fatal(err)
				}
				if err := row.AppendResponse(make([]int32, wrote)...); err != nil {
					b.Fatal(err)
				}
				row.LogProbs = append(append(row.LogProbs, make([]float32, read)...), make([]float32, wrote)...)
			}
			kept[i] = &rollout.Trajectory{Rows: []rollout.Row{row}}
		}
		b.ReportMetric(float64(heap()-before)/(episodes*turns*(read+wrote)), "B/token")
		runtime.KeepAlive(kept)
	}
}
