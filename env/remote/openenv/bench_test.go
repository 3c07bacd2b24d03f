package openenv

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/env/remote"
	"vagen/internal/testkit"
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

// raw is a WebSocket whose frames cost a client little: its mask is zero, and answers are not decoded.
type raw struct {
	net.Conn
	in *bufio.Reader
}

func dialRaw(b *testing.B, url string) raw {
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(b, err)
	b.Cleanup(func() { _ = c.Close() })
	_, err = fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", c.RemoteAddr())
	require.NoError(b, err)
	in := bufio.NewReader(c)
	answer, err := http.ReadResponse(in, nil)
	require.NoError(b, err)
	require.Equal(b, http.StatusSwitchingProtocols, answer.StatusCode)
	return raw{c, in}
}

// ask sends a text frame of at most 125 bytes and skips the answer.
func (c raw) ask(text string) error {
	if _, err := c.Write(append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...)); err != nil {
		return err
	}
	var head [2]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return err
	}
	n := int(head[1])
	if n == 126 {
		var long [2]byte
		if _, err := io.ReadFull(c.in, long[:]); err != nil {
			return err
		}
		n = int(binary.BigEndian.Uint16(long[:]))
	}
	if head[0] != 0x81 || n == 127 {
		return fmt.Errorf("a frame with the head %x", head)
	}
	_, err := c.in.Discard(n)
	return err
}

// cpu returns the CPU time of a process in seconds, 0 without one.
func cpu(b *testing.B, pid string) float64 {
	if pid == "" {
		return 0
	}
	stat := testkit.Read(b, "/proc/"+pid+"/stat")
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	require.NoError(b, err)
	system, err := strconv.Atoi(fields[12])
	require.NoError(b, err)
	return float64(user+system) / 100
}

// BenchmarkRequests plays episodes of text FrozenLake, or of the server at VAGEN_OPENENV_URL with the action
// VAGEN_OPENENV_ACTION, from many sessions, and reports requests per second, the 99th percentile and, of the process
// VAGEN_OPENENV_PID, the CPU time of a request. A client of one session has one thread, so that it measures the server
// and not the scheduler of the client.
func BenchmarkRequests(b *testing.B) {
	url, action, pid := os.Getenv("VAGEN_OPENENV_URL"), os.Getenv("VAGEN_OPENENV_ACTION"), os.Getenv("VAGEN_OPENENV_PID")
	own := url == ""
	if own {
		url = serve(b, textLake, nil)
	}
	if action == "" {
		action = `{"response":"<think>a</think><answer>Left</answer>"}`
	}
	step := `{"type":"step","data":` + action + `}`
	for _, sessions := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint(sessions), func(b *testing.B) {
			if sessions == 1 && !own {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			}
			conns := make([]raw, sessions)
			for i := range conns {
				conns[i] = dialRaw(b, url)
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			took := make([][]time.Duration, sessions)
			var all sync.WaitGroup
			before := cpu(b, pid)
			b.ResetTimer()
			for i, c := range conns {
				all.Go(func() {
					for n := 0; left.Add(-1) >= 0; n++ {
						text := step
						if n%10 == 0 {
							text = fmt.Sprintf(`{"type":"reset","data":{"seed":%d}}`, n)
						}
						start := time.Now()
						if err := c.ask(text); err != nil {
							b.Error(err)
							return
						}
						took[i] = append(took[i], time.Since(start))
					}
				})
			}
			all.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric((cpu(b, pid)-before)/float64(b.N)*1e6, "cpu-us/request")
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
