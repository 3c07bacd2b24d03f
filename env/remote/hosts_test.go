package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/env/remote/hosts"
	"vagen/internal/testkit"
)

// services answers for several hosts, each with an answer of its own that may be changed.
type services struct {
	mu     sync.Mutex
	answer map[string]answerFunc // by host; a missing one opens sessions
	calls  []string              // host and path
}

func (s *services) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	f := s.answer[r.URL.Hostname()]
	s.calls = append(s.calls, r.URL.Hostname()+r.URL.Path)
	s.mu.Unlock()
	switch {
	case f != nil:
		return f(r)
	case r.URL.Path == "/health":
		return raw(http.StatusOK, kindJSON, "{}")(r)
	case r.URL.Path == "/environments":
		return raw(http.StatusOK, kindJSON, `{"success": true}`)(r)
	}
	return started(r)
}

func (s *services) set(host string, f answerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer[host] = f
}

// openAt opens a session with a key and returns the host that has it.
func openAt(t *testing.T, o ClientOptions, key uint64) (*Client, string) {
	t.Helper()
	c, err := NewClient(o)
	require.NoError(t, err)
	_, err = c.Reset(env.WithKey(t.Context(), key), 1)
	require.NoError(t, err)
	return c, hostOf(c.send)
}

// hostOf returns the host name of a client's session.
func hostOf(s *sender) string { return strings.TrimPrefix(s.session.Host().Name(), "http://") }

func withServices(answers map[string]answerFunc, names ...string) (ClientOptions, *services) {
	s := &services{answer: map[string]answerFunc{}}
	for host, f := range answers {
		s.answer[host] = f
	}
	o := DefaultClientOptions()
	o.Transport, o.Hosts, o.LogRetries = s, hosts.New(hosts.DefaultOptions()), false
	for _, h := range names {
		o.URLs = append(o.URLs, "http://"+h)
	}
	return o, s
}

func TestSessionsBeginAtTheHostOfTheirKey(t *testing.T) {
	o, _ := withServices(nil, "a", "b", "c")
	var got []string
	for _, key := range []uint64{1, 4, 7, 2} { // 1, 4 and 7 begin at b
		_, host := openAt(t, o, key)
		got = append(got, host)
	}
	assert.Equal(t, []string{"b", "c", "a", "c"}, got, "the fewest sessions first, then the order from the key")
}

func TestDeadHostCostsEachClientNothingAndIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, s := withServices(map[string]answerFunc{"a": refusal}, "a", "b")
		begin := time.Now()
		for range 5 {
			c, host := openAt(t, o, 0)
			require.Equal(t, "b", host)
			require.NoError(t, c.Close())
		}
		require.Zero(t, time.Since(begin), "no delay")
		require.Equal(t, 1, strings.Count(strings.Join(s.calls, " "), "a/connect"), "only the first session asked")
		require.True(t, o.Hosts.Status()[0].Ejected)

		// Still dead after the pause of 5 s: the next pause has 10 s.
		open := func(after time.Duration) string {
			time.Sleep(after)
			c, _ := openAt(t, o, 0)
			synctest.Wait() // for a probe
			require.NoError(t, c.Close())
			c, host := openAt(t, o, 0)
			require.NoError(t, c.Close())
			return host
		}
		require.Equal(t, "b", open(5*time.Second))
		s.set("a", nil)
		require.Equal(t, "b", open(9*time.Second))
		require.Equal(t, "a", open(2*time.Second), "it was probed after 10 s and answered")
		require.Equal(t, 2, strings.Count(strings.Join(s.calls, " "), "a/health"))
		require.NoError(t, o.Hosts.Close())
	})
}

func TestHangingHostIsEjectedAfterThreeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := withServices(map[string]answerFunc{"a": hang}, "a", "b")
		begin := time.Now()
		c, host := openAt(t, o, 0)
		require.Equal(t, "b", host)
		require.Equal(t, 3*o.Timeout, time.Since(begin).Truncate(o.Timeout))
		begin = time.Now()
		_, host = openAt(t, o, 0)
		require.Equal(t, "b", host, "the next client knows")
		require.Zero(t, time.Since(begin))
		require.NoError(t, c.Close())
	})
}

// A host that answers at once with errors has the fewest sessions, and still does not
// attract the sessions of all others.
func TestHostThatRefusesSessionsGetsFewOfThem(t *testing.T) {
	o, s := withServices(map[string]answerFunc{"a": status(http.StatusUnauthorized, "wrong key")}, "a", "b", "c")
	failed := 0
	for key := range uint64(30) {
		c, err := NewClient(o)
		require.NoError(t, err)
		if _, err := c.Reset(env.WithKey(t.Context(), key), 1); err != nil {
			require.ErrorIs(t, err, ErrUnauthorized)
			failed++
		}
	}
	assert.LessOrEqual(t, failed, 11, "not more than its share")
	assert.Equal(t, failed, strings.Count(strings.Join(s.calls, " "), "a/connect"))
}

func TestAllHostsAreUsedWhenAllAreEjected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, s := withServices(map[string]answerFunc{"a": refusal, "b": refusal}, "a", "b")
		c, err := NewClient(o)
		require.NoError(t, err)
		go func() {
			time.Sleep(3 * time.Second)
			s.set("b", nil)
			s.set("a", nil)
		}()
		_, err = c.Reset(t.Context(), 1)
		require.NoError(t, err, "retries with delays")
		require.NoError(t, c.Close())
		require.NoError(t, o.Hosts.Close())
	})
}

// After the retries of failover_after_failures a session is given up if its host is dead, and
// a reset opens another one elsewhere.
func TestResetMovesFromADeadHost(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o, s := withServices(nil, "a", "b")
			var e env.Env
			var err error
			var send *sender
			if legacy {
				o.Name = "x"
				var c *LegacyClient
				c, err = NewLegacyClient(o)
				e, send = c, c.send
			} else {
				var c *Client
				c, err = NewClient(o)
				e, send = c, c.send
			}
			require.NoError(t, err)
			ctx := env.WithKey(t.Context(), 0)
			_, err = e.System(ctx)
			if legacy {
				require.ErrorIs(t, err, ErrProtocol, "the environment exists, the stub knows no more")
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, "a", hostOf(send))
			s.set("a", refusal)
			begin := time.Now()
			_, err = e.System(ctx)
			testkit.Error(t, err, ErrUnreachable, "connection refused")
			require.Less(t, time.Since(begin), 40*time.Second, "four retries")
			_, err = e.Reset(ctx, 1)
			if legacy {
				require.ErrorIs(t, err, ErrProtocol)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, "b", hostOf(send))
			_ = e.Close()
			for _, h := range o.Hosts.Status() {
				require.Zero(t, h.Sessions)
			}
			require.NoError(t, o.Hosts.Close())
		})
	}
}

// 4,000 clients with a list of 1,000 addresses had one copy of the list each: 1 GB.
func TestClientsShareTheirAddresses(t *testing.T) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "http://10.0.%d.%d:8000;", i/250, i%250)
	}
	list := strings.Split(strings.TrimSuffix(text.String(), ";"), ";")
	entries := make([]any, len(list))
	for i, u := range list {
		entries[i] = u
	}
	o := DefaultClientOptions()
	o.Hosts = hosts.New(hosts.DefaultOptions())
	for kind, urls := range map[string]any{"text": text.String(), "entries": entries, "strings": list} {
		make1 := Factory(o)
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		first, err := make1(map[string]any{"base_urls": urls})
		require.NoError(t, err)
		before := heap()
		clients := make([]env.Env, 1000)
		for i := range clients {
			clients[i], err = make1(map[string]any{"base_urls": urls, "size": 4})
			require.NoError(t, err)
		}
		after := heap()
		assert.Less(t, int64(after-before)/1000, int64(16<<10), "bytes of a client; the addresses alone have 40 kB: %s", kind)
		assert.Same(t, &first.(*Client).send.session.Hosts()[0], &clients[999].(*Client).send.session.Hosts()[0])
		runtime.KeepAlive(clients)
	}
	require.Len(t, o.Hosts.Status(), 1000)
}

func TestConnectionsAreKeptAsLongAsTheServiceSays(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	defer func() {
		cancel()
		require.NoError(t, <-done)
	}()
	o := DefaultClientOptions()
	o.URLs, o.Hosts = []string{"http://" + ln.Addr().String()}, hosts.New(hosts.DefaultOptions())
	c, err := NewClient(o)
	require.NoError(t, err)
	idle := func() time.Duration {
		return c.send.client(c.send.session.Hosts()[0]).Transport.(*http.Transport).IdleConnTimeout
	}
	require.Equal(t, 4*time.Second, idle(), "as for uvicorn, which does not say it")
	envtest.System(t, c)
	require.Equal(t, 90*time.Second, idle())

	e, err := FromConfig(map[string]any{"base_urls": "http://127.0.0.1:1", "keep_idle": 120})
	require.NoError(t, err)
	c = e.(*Client)
	require.Equal(t, 90*time.Second, idle(), "as the operator says")
	_, err = FromConfig(map[string]any{"base_urls": "http://127.0.0.1:1", "keep_idle": -1})
	require.ErrorContains(t, err, "keep_idle")
}

// The errors of a retry that was cut short by its context do not eject a host.
func TestCancelledRequestsDoNotCountAgainstAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := withServices(map[string]answerFunc{"a": hang}, "a", "b")
		for range 5 {
			c, err := NewClient(o)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeoutCause(env.WithKey(t.Context(), 0), time.Second, errors.New("enough"))
			_, err = c.Reset(ctx, 1)
			require.ErrorContains(t, err, "enough")
			cancel()
		}
		require.False(t, o.Hosts.Status()[0].Ejected)
		require.Zero(t, o.Hosts.Status()[0].Sessions)
	})
}

func TestErrorsSayThatTheEpisodeMustStartAgain(t *testing.T) {
	for _, err := range []error{ErrSession, ErrUnreachable, ErrUncertain} {
		require.ErrorIs(t, fmt.Errorf("x: %w", err), env.ErrLost)
	}
	for _, err := range []error{ErrBusy, ErrRemote, ErrProtocol, ErrClosed} {
		require.NotErrorIs(t, err, env.ErrLost)
	}
}
