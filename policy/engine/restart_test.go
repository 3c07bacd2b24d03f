package engine

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/enginestub"
	"vagen/internal/testkit"
)

// behind is a fleet of one stub. first sees the path of each request, and answers those for which it returns true.
func behind(
	t *testing.T, kind Kind, change func(*Options), first func(*enginestub.Stub, http.ResponseWriter, string) bool,
) (*Fleet, *enginestub.Stub) {
	t.Helper()
	c, all, _ := stubs(t, kind, 1)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !first(all[0], w, r.URL.Path) {
			all[0].ServeHTTP(w, r)
		}
	}))
	t.Cleanup(h.Close)
	o := testOptions(kind, h.URL)
	if change != nil {
		change(&o)
	}
	f, err := Open(t.Context(), c, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f, all[0]
}

// TestAServerThatLostItsAdapterGetsItAgain: the kinds say it in different ways. That a server lost its
// base model is no matter of weights.
func TestAServerThatLostItsAdapterGetsItAgain(t *testing.T) {
	for _, kind := range kinds {
		f, all := opened(t, kind, 1, nil)
		require.NoError(t, f.Publish(t.Context(), Version{Name: "w1", Path: "/a/1", Adapter: true}))
		all[0].Restart()
		require.NoError(t, ask(t, NewPolicy(f), opening(1, "x"))[0].Err, kind)
		require.Equal(t, []string{"w1"}, all[0].Adapters())
		require.Equal(t, 1.0, f.Gauges()["engine_ejections"])
	}
	var gone atomic.Bool
	f, _ := behind(t, VLLM, func(o *Options) { o.Attempts = 1 },
		func(_ *enginestub.Stub, w http.ResponseWriter, _ string) bool {
			if gone.Load() {
				http.Error(w, "no", http.StatusNotFound)
			}
			return gone.Load()
		})
	gone.Store(true)
	err := ask(t, NewPolicy(f), opening(1, "x"))[0].Err
	require.ErrorIs(t, err, ErrServer)
	require.NotErrorIs(t, err, ErrMissing)
	require.Zero(t, f.Gauges()["engine_ejections"])
}

// TestPublishWaitsForAServerThatRestarts, or that does not yet have the weights of another process, but not
// longer than an outage may take.
func TestPublishWaitsForAServerThatRestarts(t *testing.T) {
	for _, follow := range []bool{false, true} {
		var left atomic.Int32 // questions that are answered as before
		f, s := behind(t, VLLM, func(o *Options) { o.Follow, o.Outage = follow, 10*time.Second },
			func(s *enginestub.Stub, w http.ResponseWriter, path string) bool {
				if path != "/health" {
					return false
				}
				n := left.Add(-1)
				if n == 0 && follow {
					s.SetVersion("w1")
				}
				if n < 0 || follow {
					return false
				}
				http.Error(w, "starting", http.StatusServiceUnavailable)
				return true
			})
		left.Store(3)
		require.NoError(t, f.Publish(t.Context(), Version{Name: "w1", Path: "/w/1"}), "Follow %v", follow)
		require.Equal(t, "w1", s.Version())
		require.LessOrEqual(t, left.Load(), int32(0))
		s.SetDown(true)
		f.opts.Outage = 10 * time.Millisecond
		err := f.Publish(t.Context(), Version{Name: "w2", Path: "/w/2"})
		testkit.Error(t, err, ErrNoServer, "version w2 could not be brought to any server", "status 503: down")
	}
}

// TestAServerThatStayedPausedIsResumed although it has the weights.
func TestAServerThatStayedPausedIsResumed(t *testing.T) {
	for _, kind := range kinds {
		var fails, paused atomic.Bool
		fails.Store(true)
		f, s := behind(t, kind, nil, func(_ *enginestub.Stub, w http.ResponseWriter, path string) bool {
			switch {
			case strings.HasPrefix(path, "/pause"):
				paused.Store(true)
			case path == "/resume" || path == "/continue_generation":
				if fails.Swap(false) {
					http.Error(w, "busy", http.StatusServiceUnavailable)
					return true
				}
				paused.Store(false)
			}
			return false
		})
		require.NoError(t, f.Publish(t.Context(), Version{Name: "w1", Path: "/w/1"}))
		require.False(t, paused.Load(), kind)
		require.Equal(t, "w1", s.Version())
	}
}

// TestAnAdapterWhoseAnswerIsLostIsLoaded: SGLang, which cannot list its adapters, refuses it from then on.
func TestAnAdapterWhoseAnswerIsLostIsLoaded(t *testing.T) {
	for _, kind := range kinds {
		var lost atomic.Bool
		f, s := behind(t, kind, func(o *Options) { o.Outage = time.Second },
			func(s *enginestub.Stub, w http.ResponseWriter, path string) bool {
				if !strings.HasSuffix(path, "/load_lora_adapter") || lost.Swap(true) {
					return false
				}
				body := strings.NewReader(fmt.Sprintf(`{"lora_name": %q, "lora_path": %q}`, "w1", "/a/1"))
				s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, body))
				panic(http.ErrAbortHandler)
			})
		require.NoError(t, f.Publish(t.Context(), Version{Name: "w1", Path: "/a/1", Adapter: true}), kind)
		require.NoError(t, f.Publish(t.Context(), Version{Name: "w2", Path: "/a/2", Adapter: true}), kind)
		require.Equal(t, []string{"w2"}, s.Adapters())
	}
}
