package engine

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestABusyServerRestsAsLongAsItAsks: meanwhile other servers get the requests, and with no
// other they wait.
func TestABusyServerRestsAsLongAsItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &server{base: "a", healthy: true}, &server{base: "b", healthy: true}
		f := &Fleet{opts: DefaultOptions(), changed: make(chan struct{}), ctx: t.Context(), servers: []*server{a, b}}
		begin := time.Now()
		take := func() *server {
			s, err := f.acquire(t.Context(), a, nil, 0)
			require.NoError(t, err)
			return s
		}
		busy := func(after time.Duration) error { return &serverError{kind: ErrServer, status: 429, after: after} }
		require.Same(t, a, take())
		f.release(a, busy(20*time.Minute))
		require.Same(t, b, take())
		f.release(b, busy(time.Minute))
		require.Same(t, b, take(), "longer than Outage: a resting server is no outage")
		require.Equal(t, time.Minute, time.Since(begin))
		f.release(b, nil)
		synctest.Wait()
		time.Sleep(20 * time.Minute)
		require.Same(t, a, take(), "preferred again")
		f.probes.Wait()
	})
}

// TestAnAnswerSaysWhenToAskAgain in the header Retry-After.
func TestAnAnswerSaysWhenToAskAgain(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer s.Close()
	o := DefaultOptions()
	err := newWire(&o).call(t.Context(), s.URL, http.MethodGet, "/health", nil, nil)
	require.ErrorIs(t, err, ErrServer)
	require.Equal(t, time.Minute, afterOf(err))
}
