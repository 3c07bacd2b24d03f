package engine

import (
	"sync/atomic"
	"time"
)

// counters count what happened since the fleet was opened.
type counters struct {
	requests, responses, failures, retries, ejections, aborts atomic.Int64
	mixed, foreign                                            atomic.Int64 // responses and tokens by other weights
	publishes, publishTime                                    atomic.Int64
	lost                                                      atomic.Int64 // conversations that failed on every attempt
}

// Gauges returns figures since the fleet was opened, by names such as engine_retries. Those
// that end in _s are seconds.
func (f *Fleet) Gauges() map[string]float64 {
	c := &f.count
	healthy, _ := f.Healthy()
	return map[string]float64{
		"engine_servers":         float64(healthy),
		"engine_requests":        float64(c.requests.Load()),
		"engine_responses":       float64(c.responses.Load()),
		"engine_failures":        float64(c.failures.Load()),
		"engine_retries":         float64(c.retries.Load()),
		"engine_aborts":          float64(c.aborts.Load()),
		"engine_ejections":       float64(c.ejections.Load()),
		"engine_lost":            float64(c.lost.Load()),
		"engine_mixed_responses": float64(c.mixed.Load()),
		"engine_mixed_tokens":    float64(c.foreign.Load()),
		"engine_publishes":       float64(c.publishes.Load()),
		"engine_publish_s":       time.Duration(c.publishTime.Load()).Seconds(),
	}
}
