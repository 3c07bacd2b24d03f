package openenv

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/env/remote"
)

func httpServer(t testing.TB, s *remote.Server) string {
	t.Helper()
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h.URL
}

func textLake(map[string]any) (env.Env, error) {
	return frozenlake.FromConfig(map[string]any{"render_mode": "text"})
}

// BenchmarkRequests plays episodes of text FrozenLake, or of the server at VAGEN_OPENENV_URL with the action
// VAGEN_OPENENV_ACTION, from many sessions, and reports requests per second and the 99th percentile.
func BenchmarkRequests(b *testing.B) {
	url, action := os.Getenv("VAGEN_OPENENV_URL"), os.Getenv("VAGEN_OPENENV_ACTION")
	if url == "" {
		url, action = serve(b, textLake, nil), `{"response":"<think>a</think><answer>Left</answer>"}`
	}
	for _, sessions := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint(sessions), func(b *testing.B) {
			conns := make([]*websocket.Conn, sessions)
			for i := range conns {
				conns[i] = dial(b, url)
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			took := make([][]time.Duration, sessions)
			var all sync.WaitGroup
			b.ResetTimer()
			for i, c := range conns {
				all.Go(func() {
					for n := 0; left.Add(-1) >= 0; n++ {
						raw := `{"type":"step","data":` + action + `}`
						if n%10 == 0 {
							raw = fmt.Sprintf(`{"type":"reset","data":{"seed":%d}}`, n)
						}
						start := time.Now()
						if err := c.Write(context.Background(), websocket.MessageText, []byte(raw)); err != nil {
							b.Error(err)
							return
						}
						if _, _, err := c.Read(context.Background()); err != nil {
							b.Error(err)
							return
						}
						took[i] = append(took[i], time.Since(start))
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			every := slices.Sorted(slices.Values(slices.Concat(took...)))
			b.ReportMetric(float64(every[len(every)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// BenchmarkSessions measures the memory of one open session, clients included.
func BenchmarkSessions(b *testing.B) {
	url := serve(b, textLake, nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	conns := make([]*websocket.Conn, b.N)
	for i := range conns {
		c, _, err := websocket.Dial(b.Context(), url+"/ws", nil)
		require.NoError(b, err)
		defer c.CloseNow()
		require.NoError(b, c.Write(b.Context(), websocket.MessageText, []byte(`{"type":"reset"}`)))
		_, _, err = c.Read(b.Context())
		require.NoError(b, err)
		conns[i] = c
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/float64(b.N), "B/session")
	runtime.KeepAlive(conns)
}
