package remote

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/remote/internal/wire"
	"vagen/internal/slots"
)

// watched is a body that counts reads.
type watched struct {
	*bytes.Reader
	reads int
}

func (w *watched) Read(p []byte) (int, error) {
	w.reads++
	return w.Reader.Read(p)
}

func (w *watched) Close() error { return nil }

// long is more text than a small body has.
var long = strings.Repeat("a", slots.SmallBody+1)

// TestFewLargeBodiesAreInMemory: another one is not read before one has been decoded, and small ones do not wait.
func TestFewLargeBodiesAreInMemory(t *testing.T) {
	var closed atomic.Int64
	s := serve(t, func(o *ServerOptions) { o.Legacy = legacyStubs(t, &closed) })
	id := open(t, s, `{"goal": 100}`)
	for range slots.LargeBodies + 1 {
		require.Equal(t, http.StatusOK, step(t, s, id, long).status)
	}
	more := `{"env_config": {}, "ids2configs": {}, "more": "` + long + `"}`
	createA(t, s)
	require.Equal(t, http.StatusOK, post(t, s, "/environments", more).status)
	require.Empty(t, s.bodies)
	for range slots.LargeBodies {
		s.bodies <- struct{}{}
	}
	require.Equal(t, http.StatusOK, step(t, s, id, "small").status)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for path, in := range map[string]string{
		"/connect":      more,
		"/call":         fmt.Sprintf(`{"session_id": %q, "method": "step", "params": {"action_str": %q}}`, id, long),
		"/environments": more,
		"/step/a":       `{"action": "` + long + `"}`,
	} {
		body := &watched{Reader: bytes.NewReader(wire.Encode("b", []byte(in), nil, ""))}
		a := askContext(t, gone, s, http.MethodPost, path, in, func(r *http.Request) { r.Body = body })
		require.Zero(t, a.status, path)
		require.Zero(t, body.reads, path)
	}
}

// TestCallsHoldNoLargeBody: those of environments that take long do not delay other requests.
func TestCallsHoldNoLargeBody(t *testing.T) {
	e := &stub{o: stubOptions{Goal: 3, Sleep: 1}, hold: make(chan struct{}), enter: make(chan struct{})}
	s := serve(t, func(o *ServerOptions) { o.Lite = func(map[string]any) (env.Env, error) { return e, nil } })
	id := open(t, s, "{}")
	played := make(chan int)
	go func() { played <- step(t, s, id, long).status }()
	<-e.enter
	assert.Empty(t, s.bodies)
	close(e.hold)
	require.Equal(t, http.StatusOK, <-played)
}
