package track

import (
	"maps"
	"net/http"
	"slices"
	"sync"

	"vagen/internal/exposition"
)

// Prometheus exports the newest value of every metric of a run to Prometheus. It is a
// Sink and an http.Handler, which the program can serve at any path. The zero value is
// ready to use.
//
// Values appear as vagen_metric{name="actor/entropy"}; vagen_step and vagen_steps_total
// are the progress of the run, by kind of event. Metrics that are not finite are
// exported unchanged, so that alerts can detect them.
type Prometheus struct {
	mu     sync.Mutex
	newest Metrics
	steps  map[string]Event // by kind
}

// Event implements Sink.
func (p *Prometheus) Event(e Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.newest == nil {
		p.newest, p.steps = Metrics{}, map[string]Event{}
	}
	maps.Copy(p.newest, e.Metrics)
	p.steps[e.Kind] = Event{Step: e.Step, Total: e.Total}
	return nil
}

// Close implements Sink. The last values are still served.
func (p *Prometheus) Close() error { return nil }

var _ http.Handler = (*Prometheus)(nil)

// ServeHTTP implements http.Handler.
func (p *Prometheus) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	var out exposition.Writer
	p.write(&out)
	w.Header().Set("Content-Type", exposition.ContentType)
	_, _ = w.Write([]byte(out.String())) // fails only if the client disconnected
}

func (p *Prometheus) write(out *exposition.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kinds := slices.Sorted(maps.Keys(p.steps))
	out.Family("vagen_step", "gauge", "Steps done, by kind of event.")
	for _, k := range kinds {
		out.Sample("vagen_step", exposition.Label("kind", k), float64(p.steps[k].Step))
	}
	out.Family("vagen_steps_total", "gauge", "Total steps, by kind of event.")
	for _, k := range kinds {
		out.Sample("vagen_steps_total", exposition.Label("kind", k), float64(p.steps[k].Total))
	}
	out.Family("vagen_metric", "gauge", "The newest value of each metric of the run.")
	for _, name := range slices.Sorted(maps.Keys(p.newest)) {
		out.Sample("vagen_metric", exposition.Label("name", name), p.newest[name])
	}
}
