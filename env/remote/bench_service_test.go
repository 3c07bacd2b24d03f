package remote

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env/remote/internal/pyjson"
	"vagen/env/remote/internal/wire"
)

// BenchmarkService drives a service with 1, 16 and 256 sessions at a time, each of
// which steps as fast as it is answered, and reports requests a second and the
// 99th percentile of their time. VAGEN_PEER may hold the address of another
// service to drive instead of this package's, so that both are measured by the
// same load:
//
//	VAGEN_PEER=http://127.0.0.1:8123 go test -run '^$' -bench Service ./env/remote
//
// The environment is one that does next to nothing. A peer must have one that
// answers a step with a text, whatever its action.
func BenchmarkService(b *testing.B) {
	for _, sessions := range []int{1, 16, 256} {
		b.Run(fmt.Sprint(sessions), func(b *testing.B) {
			url := os.Getenv("VAGEN_PEER")
			if url == "" {
				url = listening(b)
			}
			benchService(b, url, sessions)
		})
	}
}

// listening serves stubs at a loopback address until the benchmark ends.
func listening(b *testing.B) string {
	s := serve(b, func(o *ServerOptions) { o.Lite = stubFactory })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	h := &http.Server{Handler: s}
	go func() { _ = h.Serve(ln) }()
	b.Cleanup(func() { require.NoError(b, h.Close()) })
	return "http://" + ln.Addr().String()
}

var sessionID = regexp.MustCompile(`"session_id": "([0-9a-f]{32})"`)

func benchService(b *testing.B, url string, sessions int) {
	const boundary = "gym_env_00000000000000000000000000000000"
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: sessions}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	body := func(in Info) []byte {
		data, err := pyjson.Append(nil, in, pyjson.Lite)
		require.NoError(b, err)
		return wire.Encode(boundary, data, nil, "image/png")
	}
	post := func(path string, body []byte) (string, error) {
		r, err := http.NewRequest(http.MethodPost, url+path, bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		r.Header.Set("Content-Type", `multipart/form-data; boundary="`+boundary+`"`)
		a, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err == nil && a.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d: %s", a.StatusCode, text)
		}
		return string(text), err
	}
	steps, closes := make([][]byte, sessions), make([][]byte, sessions)
	for i := range sessions {
		text, err := post("/connect", body(Info{{"env_config", Info{}}, {"seed", i}}))
		require.NoError(b, err)
		found := sessionID.FindStringSubmatch(text)
		require.NotNil(b, found, text)
		steps[i] = body(Info{{"session_id", found[1]}, {"method", "step"}, {"params", Info{{"action_str", "x"}}}})
		closes[i] = body(Info{{"session_id", found[1]}, {"method", "close"}})
	}
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	turns := make(chan struct{})
	b.ResetTimer()
	for i := range sessions {
		wg.Go(func() {
			var took []time.Duration
			for range turns {
				start := time.Now()
				if _, err := post("/call", steps[i]); err != nil {
					b.Error(err)
				}
				took = append(took, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	for range b.N {
		turns <- struct{}{}
	}
	close(turns)
	wg.Wait()
	b.StopTimer()
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
	for i := range sessions {
		_, err := post("/call", closes[i])
		require.NoError(b, err)
	}
}
