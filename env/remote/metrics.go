package remote

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"vagen/internal/exposition"
)

// buckets are the upper bounds of the histogram of calls, in seconds.
var buckets = [...]float64{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300}

// counters are the metrics of GET /metrics.
type counters struct {
	bytes, started, panics atomic.Uint64

	mu       sync.Mutex
	requests map[requestKey]uint64
	calls    map[string]*histogram
	failures map[string]uint64 // by call
	ended    map[string]uint64 // sessions, by reason
	refusals map[string]uint64 // requests, by reason
}

type requestKey struct {
	route, method string
	status        int
}

type histogram struct {
	counts [len(buckets) + 1]uint64
	sum    float64
}

func newCounters() *counters {
	c := &counters{requests: map[requestKey]uint64{}, calls: map[string]*histogram{}, failures: map[string]uint64{},
		ended: map[string]uint64{}, refusals: map[string]uint64{}}
	for _, why := range []string{"client", "idle", "replaced", "shutdown"} {
		c.ended[why] = 0
	}
	for _, why := range []string{"busy", "key", "origin", "sessions", "size"} {
		c.refusals[why] = 0
	}
	return c
}

func (c *counters) countRequest(route, method string, status, size int) {
	if !slices.Contains([]string{http.MethodGet, http.MethodPost, http.MethodDelete}, method) {
		method = "other" // a client can send any method; this bounds the number of labels
	}
	c.bytes.Add(uint64(size))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[requestKey{route, method, status}]++
}

func (c *counters) called(what string, took time.Duration, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.calls[what]
	if h == nil {
		h = new(histogram)
		c.calls[what] = h
	}
	i, _ := slices.BinarySearch(buckets[:], took.Seconds())
	h.counts[i]++
	h.sum += took.Seconds()
	if failed {
		c.failures[what]++
	}
}

func (c *counters) closed(why string) {
	c.mu.Lock()
	c.ended[why]++
	c.mu.Unlock()
}

func (c *counters) refused(why string) {
	c.mu.Lock()
	c.refusals[why]++
	c.mu.Unlock()
}

// serveMetrics answers GET /metrics.
func (s *Server) serveMetrics(*http.Request, string, body) reply {
	var e exposition.Writer
	e.Family("vagen_env_sessions", "gauge", "Environments alive.")
	e.Sample("vagen_env_sessions", `protocol="lite"`, float64(s.lite.len()))
	e.Sample("vagen_env_sessions", `protocol="legacy"`, float64(s.legacy.len()))
	if s.o.Other != nil {
		e.Sample("vagen_env_sessions", `protocol="other"`, float64(s.o.Other.Sessions()))
	}
	e.Family("vagen_env_inflight_requests", "gauge", "Requests that hold a slot; 0 if slots are unlimited.")
	e.Sample("vagen_env_inflight_requests", "", float64(len(s.slots)))
	s.metrics.write(&e)
	return reply{status: http.StatusOK, kind: exposition.ContentType, body: []byte(e.String())}
}

func (c *counters) write(e *exposition.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.Counter("vagen_env_sessions_opened_total", "Environments made.", c.started.Load())
	e.Counter("vagen_env_panics_total", "Calls of environments that panicked.", c.panics.Load())
	e.Counter("vagen_env_response_bytes_total", "Bytes of response bodies.", c.bytes.Load())
	e.ByLabel("vagen_env_sessions_closed_total", "Environments closed.", "reason", c.ended)
	e.ByLabel("vagen_env_refused_requests_total", "Requests refused before they ran.", "reason", c.refusals)
	e.ByLabel("vagen_env_call_failures_total", "Calls of environments that failed.", "call", c.failures)
	e.Family("vagen_env_requests_total", "counter", "Requests answered.")
	requests := map[string]uint64{}
	for k, n := range c.requests {
		requests[fmt.Sprintf("route=%q,method=%q,code=\"%d\"", k.route, k.method, k.status)] = n
	}
	for _, labels := range slices.Sorted(maps.Keys(requests)) {
		e.Sample("vagen_env_requests_total", labels, float64(requests[labels]))
	}
	e.Family("vagen_env_call_seconds", "histogram", "Duration of calls of environments.")
	for _, what := range slices.Sorted(maps.Keys(c.calls)) {
		c.calls[what].write(e, "vagen_env_call_seconds", exposition.Label("call", what))
	}
}

// write writes the histogram in the Prometheus text format.
func (h *histogram) write(e *exposition.Writer, name, labels string) {
	var below uint64
	for i, bound := range buckets {
		below += h.counts[i]
		e.Sample(name+"_bucket", labels+`,le="`+exposition.Number(bound)+`"`, float64(below))
	}
	below += h.counts[len(buckets)]
	e.Sample(name+"_bucket", labels+`,le="+Inf"`, float64(below))
	e.Sample(name+"_sum", labels, h.sum)
	e.Sample(name+"_count", labels, float64(below))
}
