package remote

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
)

// loads are what BenchmarkService plays: an environment, its configuration and a
// response that is sent in every turn.
var loads = []struct {
	name, action string
	make         env.Factory
	config       Info
}{
	{"stub", "x", stubFactory, Info{}},
	{"frozenlake text", "<think>t</think><answer>Up,Down</answer>", liteEnvs["frozenlake"], Info{{"render_mode", "text"}}},
	{"frozenlake vision", "<think>t</think><answer>Up,Down</answer>", liteEnvs["frozenlake"],
		Info{{"render_mode", "vision"}}},
	{"sokoban text", "<observation>o</observation><think>t</think><answer>Up,Down</answer><prediction>p</prediction>",
		liteEnvs["sokoban"], Info{{"render_mode", "text"}}},
	{"sokoban vision", "<observation>o</observation><think>t</think><answer>Up,Down</answer><prediction>p</prediction>",
		liteEnvs["sokoban"], Info{{"render_mode", "vision"}}},
}

// BenchmarkService drives a service with 1, 16 and 256 sessions at a time, each of
// which steps as fast as it is answered, and reports requests a second and the
// 99th percentile of their time. VAGEN_PEER may hold the address of another
// service to drive instead of this package's, so that both are measured by the
// same load; it hosts one environment, by which loads have to be chosen:
//
//	VAGEN_PEER=http://127.0.0.1:8123 go test -run '^$' -bench Service/frozenlake ./env/remote
//
// The load "nothing" is the lower bound: a server that answers without reading.
func BenchmarkService(b *testing.B) {
	peer := os.Getenv("VAGEN_PEER")
	for _, sessions := range []int{1, 16, 256} {
		b.Run(fmt.Sprint("nothing/", sessions), func(b *testing.B) {
			answer := []byte(`{"session_id": "00000000000000000000000000000000"}`)
			h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) })
			benchService(b, listening(b, h), sessions, nil, "")
		})
	}
	for _, l := range loads {
		for _, sessions := range []int{1, 16, 256} {
			b.Run(fmt.Sprint(l.name, "/", sessions), func(b *testing.B) {
				url := peer
				if url == "" {
					url = listening(b, serve(b, func(o *ServerOptions) { o.Lite = l.make }))
				}
				benchService(b, url, sessions, l.config, l.action)
			})
		}
	}
}

// listening serves at a loopback address until the benchmark ends.
func listening(b *testing.B, h http.Handler) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(ln) }()
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return "http://" + ln.Addr().String()
}

var sessionID = regexp.MustCompile(`"session_id": "([0-9a-f]{32})"`)

func benchService(b *testing.B, url string, sessions int, config Info, action string) {
	players := make([]*loader, sessions)
	steps, closes := make([][]byte, sessions), make([][]byte, sessions)
	for i := range sessions {
		l, err := newLoader(url)
		require.NoError(b, err)
		defer l.conn.Close()
		text, err := l.do(nil, loadRequest(b, "/connect", Info{{"env_config", config}, {"seed", i}}))
		require.NoError(b, err)
		found := sessionID.FindSubmatch(text)
		require.NotNil(b, found, string(text))
		id := string(found[1])
		players[i] = l
		steps[i] = loadRequest(b, "/call", Info{{"session_id", id}, {"method", "step"}, {"params", Info{{"action_str",
			action}}}})
		closes[i] = loadRequest(b, "/call", Info{{"session_id", id}, {"method", "close"}})
	}
	took := make([][]time.Duration, sessions)
	var wg sync.WaitGroup
	b.ResetTimer()
	for i, l := range players {
		// Each plays its share of all turns.
		turns := b.N*(i+1)/sessions - b.N*i/sessions
		wg.Go(func() {
			var answer []byte
			for range turns {
				start := time.Now()
				var err error
				if answer, err = l.do(answer, steps[i]); err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
	for i, l := range players {
		_, err := l.do(nil, closes[i])
		require.NoError(b, err)
	}
}
