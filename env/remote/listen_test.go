package remote

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
)

func TestServingOtherMachinesNeedsAKey(t *testing.T) {
	checkGoroutines(t)
	for _, c := range []struct {
		addr, key string
		refused   bool
	}{
		{"127.0.0.1:0", "", false}, {"localhost:0", "", false}, {"127.0.0.9:0", "", false},
		{":0", "", true}, {"0.0.0.0:0", "", true}, {"0.0.0.0:0", "key", false},
	} {
		o := DefaultServerOptions()
		o.Lite, o.APIKey = stubFactory, c.key
		s, err := NewServer(o)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // ends at once where it serves
		var l net.ListenConfig
		ln, err := l.Listen(t.Context(), "tcp", c.addr)
		require.NoError(t, err)
		err = s.Serve(ctx, ln)
		assert.Equal(t, c.refused, err != nil, "%s %q: %v", c.addr, c.key, err)
		if c.refused {
			assert.ErrorIs(t, err, ErrKeyNeeded)
		}
		_, err = net.DialTimeout("tcp", ln.Addr().String(), time.Minute)
		assert.Error(t, err, "the listener is closed in any case")
	}
	o := DefaultServerOptions()
	o.Lite = stubFactory
	s, err := NewServer(o)
	require.NoError(t, err)
	assert.ErrorIs(t, s.ListenAndServe(t.Context(), ":0"), ErrKeyNeeded)
	s, err = NewServer(o)
	require.NoError(t, err)
	assert.ErrorContains(t, s.ListenAndServe(t.Context(), "127.0.0.1:http-but-wrong"), "remote: ")
}

func TestUnixSocketNeedsNoKey(t *testing.T) {
	checkGoroutines(t)
	o := DefaultServerOptions()
	o.Lite = stubFactory
	s, err := NewServer(o)
	require.NoError(t, err)
	var l net.ListenConfig
	ln, err := l.Listen(t.Context(), "unix", t.TempDir()+"/env.sock")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NoError(t, s.Serve(ctx, ln))
}

// heldService listens, and its environments wait in a step.
type heldService struct {
	address     string
	hold, enter chan struct{}
	closed      atomic.Int64
	cancel      context.CancelFunc
	ended       chan error
}

func serveHeld(t *testing.T, readTimeout time.Duration) *heldService {
	t.Helper()
	checkGoroutines(t)
	h := &heldService{hold: make(chan struct{}), enter: make(chan struct{}), ended: make(chan error)}
	o := DefaultServerOptions()
	o.ReadTimeout = readTimeout
	o.Lite = func(config map[string]any) (env.Env, error) {
		e, err := newStub(config)
		e.closed, e.hold, e.enter = &h.closed, h.hold, h.enter
		return e, err
	}
	s, err := NewServer(o)
	require.NoError(t, err)
	var l net.ListenConfig
	ln, err := l.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h.address = ln.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	h.cancel = cancel
	go func() { h.ended <- s.Serve(ctx, ln) }()
	return h
}

// client has an environment that was reset.
func (h *heldService) client(t *testing.T, config map[string]any) *Client {
	t.Helper()
	o := patientOptions(ownTransport(t))
	o.URLs, o.Config = []string{"http://" + h.address}, config
	c, err := NewClient(o)
	require.NoError(t, err)
	envtest.Reset(t, c, 1)
	return c
}

// When its context ends a service finishes the running step, answers it, and
// closes every environment.
func TestServiceDrainsWhenItsContextEnds(t *testing.T) {
	h := serveHeld(t, DefaultServerOptions().ReadTimeout)
	idle, busy := h.client(t, nil), h.client(t, map[string]any{"sleep": 1, "goal": 1})
	stepped := make(chan error)
	go func() {
		out, err := busy.Step(t.Context(), "x")
		if err == nil && !out.Done {
			err = assert.AnError
		}
		stepped <- err
	}()
	<-h.enter
	h.cancel()
	close(h.hold)
	assert.NoError(t, <-stepped, "the running step is answered")
	assert.NoError(t, <-h.ended)
	assert.EqualValues(t, 2, h.closed.Load())
	_, err := idle.Step(t.Context(), "x")
	assert.Error(t, err)
	assert.Error(t, idle.Close(), "the service is gone, which is worth knowing")
	assert.NoError(t, idle.Close())
}

// A client that sends its body too slowly is cut off; one that is fast may wait
// for its step much longer than that.
func TestReadTimeoutIsForTheBodyAlone(t *testing.T) {
	const limit = time.Second
	h := serveHeld(t, limit)
	conn, err := net.Dial("tcp", h.address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("POST /call HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nslow"))
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	assert.Error(t, err, "cut off without an answer")

	c := h.client(t, map[string]any{"sleep": 1})
	go func() {
		<-h.enter
		time.Sleep(2 * limit)
		close(h.hold)
	}()
	_, err = c.Step(t.Context(), "x")
	assert.NoError(t, err)
	assert.NoError(t, c.Close())
	h.cancel()
	assert.NoError(t, <-h.ended)
}

func TestHealthNamesWhatIsServed(t *testing.T) {
	both := serve(t, func(o *ServerOptions) { o.Legacy, o.MaxInFlight = legacyEnvs(t), 7 })
	said := get(t, both, "/health").data
	assert.Equal(t, true, said["ok"], "for Lite clients")
	assert.EqualValues(t, 7, said["max_inflight"])
	assert.Equal(t, "ok", said["status"], "for legacy clients")
	assert.Equal(t, []any{"blackjack", "frozenlake", "sokoban"}, said["registered_envs"])
}
