package openenv

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/remote"
)

// pinged reads from a connection and returns whether the peer answers a ping.
func pinged(ctx context.Context, c *websocket.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	go func() { _, _, _ = c.Read(ctx) }() // reads the answer to the ping
	return c.Ping(ctx)
}

// TestClientAnswersPingsBetweenCalls: the policy may think for longer than the server waits for an answer to
// its ping.
func TestClientAnswersPingsBetweenCalls(t *testing.T) {
	got := make(chan error, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/schema", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(echoSchema)) })
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		if _, _, err = c.Read(r.Context()); err == nil {
			err = c.Write(r.Context(), websocket.MessageText, []byte(observation("begin")))
		}
		if err == nil {
			err = pinged(r.Context(), c)
		}
		got <- err
	})
	h := httptest.NewServer(mux)
	defer h.Close()
	_, err := client(t, h.URL, nil).Reset(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, <-got)
}

// slow is an environment whose steps wait.
type slow struct {
	grid
	steps chan struct{}
}

func (s *slow) Step(ctx context.Context, response string) (env.Outcome, error) {
	s.steps <- struct{}{}
	<-s.steps
	return s.grid.Step(ctx, response)
}

// TestServerAnswersPingsDuringSteps: a step may take longer than the client waits for an answer to its ping.
func TestServerAnswersPingsDuringSteps(t *testing.T) {
	e := &slow{steps: make(chan struct{})}
	c := dial(t, serve(t, func(map[string]any) (env.Env, error) { return e, nil }, nil))
	ask(t, c, `{"type":"reset"}`)
	require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"step","data":{"response":"right"}}`)))
	<-e.steps
	defer close(e.steps)
	require.NoError(t, pinged(t.Context(), c))
}

// watched is a context that counts those that depend on it.
type watched struct {
	context.Context
	kids atomic.Int32
}

func (w *watched) Value(any) any { return nil } // the embedded context does not watch for it

func (w *watched) AfterFunc(func()) (stop func() bool) {
	w.kids.Add(1)
	return func() bool { w.kids.Add(-1); return true }
}

// TestRefusedSessionsAreFreed: nothing of a session that is refused stays at the server.
func TestRefusedSessionsAreFreed(t *testing.T) {
	o := remote.DefaultServerOptions()
	o.MaxSessions = 1
	s, err := NewServer(Hosted{Make: newGrid}, o)
	require.NoError(t, err)
	idle, base := &watched{Context: s.idle}, &watched{Context: s.base}
	s.idle, s.base = idle, base
	h := httptest.NewServer(s)
	defer h.Close()
	first := dial(t, h.URL)
	ask(t, first, `{"type":"reset"}`)
	for range 3 {
		c := dial(t, h.URL)
		_, answer, err := c.Read(t.Context())
		require.NoError(t, err)
		require.Contains(t, string(answer), capacityReached)
		require.NoError(t, c.CloseNow())
	}
	require.Eventually(t, func() bool { return idle.kids.Load() == 1 && base.kids.Load() == 1 }, 10*time.Second,
		time.Millisecond, "only those of the open session")
	require.NoError(t, first.CloseNow())
	require.NoError(t, s.Close(t.Context()))
}
