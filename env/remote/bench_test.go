package remote

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkSessions opens and resets 10,000 sessions and reports what each takes
// of the heap, and how many goroutines the server runs.
func BenchmarkSessions(b *testing.B) {
	const n = 10_000
	for _, name := range []string{"frozenlake", "sokoban"} {
		for _, mode := range []string{"text", "vision"} {
			b.Run(name+" "+mode, func(b *testing.B) {
				for b.Loop() {
					s := serve(b, func(o *ServerOptions) { o.Lite = liteEnvs[name] })
					before, threads := heap(), runtime.NumGoroutine()
					for range n {
						open(b, s, Info{{"render_mode", mode}})
					}
					b.ReportMetric(float64(heap()-before)/n, "B/session")
					b.ReportMetric(float64(runtime.NumGoroutine()-threads), "goroutines")
					require.Equal(b, n, s.lite.len())
				}
			})
		}
	}
}

// heap is what is in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkStep plays turns over loopback HTTP, one after another and from several
// clients at once.
func BenchmarkStep(b *testing.B) {
	for _, protocol := range []string{"lite", "legacy"} {
		for _, mode := range []string{"text", "vision"} {
			b.Run(protocol+" "+mode, func(b *testing.B) {
				make := hosted(b, protocol, "frozenlake", nil)
				e, err := make(map[string]any{"render_mode": mode})
				require.NoError(b, err)
				_, err = e.Reset(b.Context(), 1)
				require.NoError(b, err)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := e.Step(b.Context(), "<think>t</think><answer>None</answer>"); err != nil {
						b.Fatal(err)
					}
				}
				require.NoError(b, e.Close())
			})
		}
	}
}

// unread is a ResponseWriter that keeps nothing but the status.
type unread struct {
	head   http.Header
	status int
}

func (w *unread) Header() http.Header         { return w.head }
func (w *unread) Write(b []byte) (int, error) { return len(b), nil }
func (w *unread) WriteHeader(status int)      { w.status = status }

// BenchmarkHandler is the server's part of a step, without a network.
func BenchmarkHandler(b *testing.B) {
	for _, l := range loads {
		b.Run(l.name, func(b *testing.B) {
			s := serve(b, func(o *ServerOptions) { o.Lite = l.make })
			id := open(b, s, l.config)
			raw := loadRequest(b, "/call", Info{{"session_id", id}, {"method", "step"}, {"params", Info{{"action_str", l.action}}}})
			_, raw, _ = bytes.Cut(raw, []byte("\r\n\r\n"))
			r := httptest.NewRequest(http.MethodPost, "/call", nil)
			r.Host = "localhost"
			r.Header.Set("Content-Type", `multipart/form-data; boundary="`+loadBoundary+`"`)
			r.ContentLength = int64(len(raw))
			var body bytes.Reader
			r.Body = io.NopCloser(&body)
			w := &unread{head: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(raw)
				s.ServeHTTP(w, r)
				if w.status != http.StatusOK {
					b.Fatal(w.status)
				}
			}
		})
	}
}
