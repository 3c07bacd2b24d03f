package train

import (
	"runtime/metrics"

	"vagen/internal/usage"
	"vagen/policy"
	"vagen/rollout"
	"vagen/train/track"
)

// measureMachine writes the memory use of the process, and the own metrics of learner and
// dealer. Values that the system does not report are omitted.
func measureMachine(learner policy.Learner, dealer rollout.Dealer, m track.Metrics) {
	const mb = 1e6
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(heap)
	live := 0.0
	if heap[0].Value.Kind() == metrics.KindUint64 {
		live = float64(heap[0].Value.Uint64())
	}
	for name, bytes := range map[string]float64{
		"host_memory_mb":      float64(usage.Resident()),
		"host_memory_peak_mb": float64(usage.PeakResident()),
		"go_heap_mb":          live,
	} {
		if bytes > 0 {
			m["perf/"+name] = bytes / mb
		}
	}
	for _, part := range []any{learner, dealer} {
		if r, ok := policy.As[policy.MetricsReporter](part); ok {
			for name, x := range r.Gauges() {
				m["perf/"+name] = x
			}
		}
	}
}
