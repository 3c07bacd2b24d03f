package openenv

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/remote"
)

// lingering is an environment whose Close waits.
type lingering struct {
	grid
	closing chan struct{}
}

func (l *lingering) Close() error {
	l.closing <- struct{}{}
	<-l.closing
	return nil
}

// TestSessionsCountUntilTheirEnvironmentsAreClosed: the limit holds, and the server's Close waits for them.
func TestSessionsCountUntilTheirEnvironmentsAreClosed(t *testing.T) {
	s, err := NewServer(Hosted{Make: newGrid}, remote.DefaultServerOptions())
	require.NoError(t, err)
	e := &lingering{closing: make(chan struct{})}
	s.hosted.Make = func(map[string]any) (env.Env, error) { return e, nil }
	h := httptest.NewServer(s)
	defer h.Close()
	c := dial(t, h.URL)
	ask(t, c, `{"type":"reset"}`)
	require.NoError(t, c.CloseNow())
	<-e.closing
	require.Equal(t, 1, s.Sessions())
	e.closing <- struct{}{}
	require.NoError(t, s.Close(t.Context()))
}

// deadlined is an answer whose time for writing is limited.
type deadlined struct {
	*httptest.ResponseRecorder
	at time.Time
}

func (d *deadlined) SetWriteDeadline(at time.Time) error {
	d.at = at
	return nil
}

// TestAnswersOverHTTPAreLimitedInTime: a client that does not read one does not keep its connection.
func TestAnswersOverHTTPAreLimitedInTime(t *testing.T) {
	s, err := NewServer(Hosted{Make: newGrid}, remote.DefaultServerOptions())
	require.NoError(t, err)
	for _, path := range []string{"/health", "/openenv.yaml", "/nope"} {
		w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.NotZero(t, w.at, path)
	}
}
