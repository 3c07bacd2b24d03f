package openenv

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/remote"
)

// TestTimeLimit passes limits that are renewed, cleared, shortened and set again after the timer rang too early.
func TestTimeLimit(t *testing.T) {
	type do struct {
		after time.Duration // since the one before
		set   time.Duration // 0 clears
	}
	for name, c := range map[string]struct {
		does []do
		ends time.Duration // since the start; 0 is never
	}{
		"one":               {[]do{{0, 10}}, 10},
		"cleared":           {[]do{{0, 10}, {5, 0}}, 0},
		"renewed":           {[]do{{0, 10}, {5, 10}}, 15},
		"renewed twice":     {[]do{{0, 10}, {9, 10}, {9, 10}}, 28},
		"shortened":         {[]do{{0, 100}, {5, 10}}, 15},
		"again":             {[]do{{0, 10}, {5, 0}, {20, 10}}, 35},
		"again before ring": {[]do{{0, 10}, {5, 0}, {1, 10}}, 16},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var ends atomic.Int64
				l := timeLimit{end: func() { require.Zero(t, ends.Swap(int64(time.Since(start))), "ended twice") }}
				for _, d := range c.does {
					time.Sleep(d.after)
					if d.set == 0 {
						l.clear()
					} else {
						l.set(d.set)
					}
				}
				time.Sleep(time.Hour)
				require.EqualValues(t, c.ends, ends.Load())
				l.set(time.Second)
				l.free()
				time.Sleep(time.Hour)
				require.EqualValues(t, c.ends, ends.Load(), "a freed limit ended")
			})
		})
	}
}

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
