package openenv

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"vagen/env/remote"
	"vagen/internal/slots"
)

// longStep is a step with more text than a small body has.
var longStep = fmt.Sprintf(`{"type":"step","data":{"response":%q}}`, strings.Repeat("a", slots.SmallBody))

// TestFewLargeRequestsAreInMemory: another one is not read before one has been read and decoded, and small ones do
// not wait.
func TestFewLargeRequestsAreInMemory(t *testing.T) {
	s, err := NewServer(Hosted{Make: newGrid}, remote.DefaultServerOptions())
	require.NoError(t, err)
	h := httptest.NewServer(s)
	defer h.Close()
	c := dial(t, h.URL)
	ask(t, c, `{"type":"reset"}`)
	c.SetReadLimit(2 << 20)
	post := func(ctx context.Context, body string) int {
		w := httptest.NewRecorder()
		w.Code = 0
		s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/reset", strings.NewReader(body)))
		return w.Code
	}
	for range slots.LargeBodies + 1 {
		require.Contains(t, ask(t, c, longStep), "observation")
		require.Equal(t, http.StatusOK, post(t.Context(), `{"more":`+longStep+`}`))
	}
	require.Empty(t, s.bodies)
	for range slots.LargeBodies {
		s.bodies <- struct{}{}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.Contains(t, ask(t, c, `{"type":"step","data":{"response":"right"}}`), "observation")
	require.Equal(t, http.StatusOK, post(gone, `{}`))
	require.NotEqual(t, http.StatusOK, post(gone, `{"more":`+longStep+`}`))
	require.NoError(t, c.CloseNow())
	require.NoError(t, s.Close(t.Context()))
}

// TestLargeFramesWaitForASlot: until the session ends, and hold it until they were decoded.
func TestLargeFramesWaitForASlot(t *testing.T) {
	got := make(chan *websocket.Conn)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := websocket.Accept(w, r, nil); err == nil {
			got <- c
			<-got
		}
	}))
	defer h.Close()
	c, _, err := websocket.Dial(t.Context(), h.URL, nil)
	require.NoError(t, err)
	defer c.CloseNow()
	conn := <-got
	defer close(got)
	conn.SetReadLimit(2 << 20)
	ended, end := context.WithCancel(t.Context())
	l := &large{t.Context(), make(slots.Slots, 1), time.Minute}
	r := readFrames(conn, l)
	defer r.close()
	go func() {
		for _, text := range []string{longStep, "{}", longStep} {
			_ = c.Write(t.Context(), websocket.MessageText, []byte(text)) // the last one is not read
		}
	}()
	first := r.next()
	require.NoError(t, first.err)
	require.Equal(t, longStep, string(first.raw))
	require.Len(t, l.slots, 1)
	require.NoError(t, r.next().err, "a small one does not wait")
	end()
	l.Context = ended
	require.ErrorIs(t, r.next().err, context.Canceled)
	first.done()
	first.done()
	require.Empty(t, l.slots)
}
