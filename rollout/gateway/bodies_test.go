package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/slots"
	"vagen/rollout/gateway/internal/dialect"
)

// TestFewLargeBodiesAreInMemory: one more is not read before another is done, and small ones do not wait.
func TestFewLargeBodiesAreInMemory(t *testing.T) {
	g := unserved(nil)
	episodes := make([]Episode, slots.LargeBodies+1)
	for i := range episodes {
		episodes[i].body = make(slots.Slots, 1)
	}
	read := func(e *Episode, size int) error {
		gone, leave := context.WithCancel(t.Context())
		leave()
		r := httptest.NewRequestWithContext(gone, http.MethodPost, "/", strings.NewReader(strings.Repeat(" ", size)))
		return exchange{r, httptest.NewRecorder(), g, e}.body(64<<20, func([]byte) error { return nil })
	}
	var within func(n int)
	within = func(n int) {
		if n == 0 {
			require.NoError(t, read(&episodes[0], slots.SmallBody))
			require.Equal(t, errBody, read(&episodes[0], slots.SmallBody+1))
			return
		}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat(" ", slots.SmallBody+1)))
		require.NoError(t, exchange{r, httptest.NewRecorder(), g, &episodes[n]}.body(64<<20, func([]byte) error {
			for range 20 { // its next one, which has room by chance otherwise
				require.Equal(t, errBody, read(&episodes[n], slots.SmallBody+1))
			}
			within(n - 1)
			return nil
		}))
	}
	within(slots.LargeBodies)
}

// TestWaitingCallsHaveLimitedText: a client that waits for none of its answers is told to come back.
func TestWaitingCallsHaveLimitedText(t *testing.T) {
	g := unserved(nil)
	g.o.MaxBody = 20
	p, err := g.Env(map[string]any{"wait": true})
	require.NoError(t, err)
	e := p.(player).Episode
	ask := func(text string) error {
		_, err := e.ask(&dialect.Request{Messages: []dialect.Message{{Role: dialect.User, Text: text}}}, false)
		return err
	}
	require.NoError(t, ask(strings.Repeat("a", 15)))
	require.NoError(t, ask("b"))
	refused := ask("123456")
	require.ErrorContains(t, refused, "more than 20 bytes of text")
	require.Equal(t, http.StatusTooManyRequests, refused.(*dialect.Error).Status)
	require.Len(t, e.queue, 2)
}
