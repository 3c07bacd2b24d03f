package remote

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/env"
)

// finalRewardStub is an environment that pays at the end of its episode.
type finalRewardStub struct{ *stub }

func (finalRewardStub) FinalReward() float64 { return 2.5 }

func legacyStubs(t testing.TB, closed *atomic.Int64) *env.Registry {
	t.Helper()
	var r env.Registry
	require.NoError(t, r.Register("stub", counted(closed)))
	require.NoError(t, r.Register("panicking", func(map[string]any) (env.Env, error) { panic("factory panic") }))
	require.NoError(t, r.Register("ending", func(config map[string]any) (env.Env, error) {
		e, err := newStub(config)
		return finalRewardStub{e}, err
	}))
	return &r
}

func legacyServer(t testing.TB, closed *atomic.Int64) *Server {
	return serve(t, func(o *ServerOptions) { o.Lite, o.Legacy = nil, legacyStubs(t, closed) })
}

func order(kind string, config Info) Info {
	if config == nil {
		config = Info{}
	}
	return Info{{"env_name", kind}, {"env_config", config}}
}

// The failure of an environment is reported in its own entry; the others of the batch
// continue.
func TestAFailureInABatchAffectsOnlyItsEnvironment(t *testing.T) {
	var closed atomic.Int64
	s := legacyServer(t, &closed)
	require.Equal(t, http.StatusOK, post(t, s, "/environments", Info{{"ids2configs", Info{
		{"good", order("stub", nil)}, {"fails", order("stub", Info{{"fail_on", "x"}})},
		{"panics", order("stub", Info{{"panic_on", "x"}})},
		{"broken", order("stub", Info{{"broken", true}})}, {"never", order("stub", Info{{"gaol", 2}})},
		{"crash", order("panicking", nil)},
	}}}).status)
	a := post(t, s, "/batch/reset", Info{{"ids2seeds", Info{{"good", 1}, {"fails", 2}, {"panics", 3}, {"broken", 4},
		{"never", 5}, {"crash", 6}}}})
	failure := func(text string) []any { return []any{map[string]any{}, map[string]any{"error": text}} }
	start := func(seed string) map[string]any { return map[string]any{"obs_str": "start " + seed} }
	assert.Equal(t, map[string]any{
		"good":   []any{start("1"), map[string]any{"seed": int64(1)}},
		"fails":  []any{start("2"), map[string]any{"seed": int64(2)}},
		"panics": []any{start("3"), map[string]any{"seed": int64(3)}},
		"broken": failure("stub cannot reset"), "never": failure("Environment never not found"),
		"crash": failure("Environment crash not found"),
	}, a.data["results"])
	a = post(t, s, "/batch/step", Info{{"ids2actions", Info{{"good", "x"}, {"fails", "x"}, {"panics", "x"}, {"broken", 7},
		{"never", "x"}}}})
	failed := func(text string) []any {
		return []any{map[string]any{}, 0.0, true, map[string]any{"error": text}}
	}
	got := a.data["results"].(map[string]any)
	assert.Equal(t, map[string]any{"obs_str": "turn 1"}, got["good"].([]any)[0])
	assert.Equal(t, failed("stub failure"), got["fails"])
	assert.Equal(t, failed("stub panic"), got["panics"])
	assert.Equal(t, failed("an action must be text, found int64"), got["broken"])
	assert.Equal(t, failed("Environment never not found"), got["never"])
	a = post(t, s, "/batch/system_prompt", Info{{"env_ids", []any{"good", "never"}}})
	assert.Equal(t, map[string]any{"good": "stub rules: é ü 漢 \"quoted\" \\ back\r\nslash", "never": ""},
		a.data["system_prompts"])
	assert.Contains(t, a.text, `\u00e9 \u00fc \u6f22`, "text is escaped to ASCII")
	a = post(t, s, "/batch/reward", Info{{"env_ids", []any{"good", "never"}}})
	assert.Equal(t, map[string]any{"good": 0.0, "never": 0.0}, a.data["rewards"])
	a = post(t, s, "/batch/close", Info{{"env_ids", []any{"never", "good", "good"}}})
	assert.Equal(t, "{\"status\":\"success\"}\n", a.text)
	assert.EqualValues(t, 1, closed.Load())
	assert.EqualValues(t, 4, get(t, s, "/health").data["active_environments"])
}

// A client whose connection breaks while an environment is created sends the request again. The
// first request, when it is ready at last, does not replace the environment of the second.
func TestACreationWhoseClientHasGoneReplacesNothing(t *testing.T) {
	var closed, made atomic.Int64
	slow, begun := make(chan struct{}), make(chan struct{})
	s := serve(t, func(o *ServerOptions) {
		o.Lite, o.Legacy = nil, new(env.Registry)
		require.NoError(t, o.Legacy.Register("stub", func(config map[string]any) (env.Env, error) {
			if made.Add(1) == 1 {
				close(begun)
				<-slow
			}
			return counted(&closed)(config)
		}))
	})
	create := Info{{"ids2configs", Info{{"a", order("stub", nil)}}}}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		askContext(t, ctx, s, http.MethodPost, "/environments", create)
	}()
	<-begun
	cancel()
	<-gone
	require.Equal(t, http.StatusOK, post(t, s, "/environments", create).status)
	post(t, s, "/batch/reset", Info{{"ids2seeds", Info{{"a", 7}}}})
	close(slow)
	require.Eventually(t, func() bool { return closed.Load() == 1 }, time.Minute, time.Millisecond,
		"the first environment is closed")
	a := post(t, s, "/batch/step", Info{{"ids2actions", Info{{"a", "x"}}}})
	require.Equal(t, map[string]any{"obs_str": "turn 1"}, a.data["results"].(map[string]any)["a"].([]any)[0])
	post(t, s, "/batch/close", Info{{"env_ids", []any{"a"}}})
	require.EqualValues(t, 2, closed.Load())
	require.EqualValues(t, 0, get(t, s, "/health").data["active_environments"])
}

// slowToClose is a stub that closes in a second.
type slowToClose struct{ *stub }

func (s slowToClose) Close() error {
	time.Sleep(time.Second)
	return s.stub.Close()
}

func TestABatchWhoseClientHasGoneStartsNoMoreAndClosesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed, made atomic.Int64
		s := serve(t, func(o *ServerOptions) {
			o.Lite, o.Legacy, o.BatchWorkers = nil, new(env.Registry), 1
			require.NoError(t, o.Legacy.Register("stub", func(map[string]any) (env.Env, error) {
				made.Add(1)
				time.Sleep(time.Second)
				return slowToClose{&stub{closed: &closed}}, nil
			}))
		})
		create := Info{{"ids2configs", Info{{"a", order("stub", nil)}, {"b", order("stub", nil)}}}}
		leaving := func(path string, body Info) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			askContext(t, ctx, s, http.MethodPost, path, body)
			time.Sleep(time.Minute)
		}
		leaving("/environments", create)
		require.EqualValues(t, 1, made.Load())
		require.EqualValues(t, 1, closed.Swap(0))
		require.Equal(t, http.StatusOK, post(t, s, "/environments", create).status)
		leaving("/batch/close", Info{{"env_ids", []any{"a", "b"}}})
		require.EqualValues(t, 2, closed.Load())
	})
}

func TestSeedsOfABatchDoNotDependOnTheOrderOfWork(t *testing.T) {
	draw := func() any {
		s := legacyServer(t, new(atomic.Int64))
		configs, seeds := Info{}, Info{}
		for _, id := range strings.Split("a b c d e f g h", " ") {
			configs, seeds = append(configs, Field{id, order("stub", nil)}), append(seeds, Field{id, nil})
		}
		post(t, s, "/environments", Info{{"ids2configs", configs}})
		return post(t, s, "/batch/reset", Info{{"ids2seeds", seeds}}).data["results"]
	}
	first := draw()
	for range 5 {
		assert.Equal(t, first, draw())
	}
}

// A batch with an unknown id has no effect.
func TestUnknownNameFailsABatchBeforeItRuns(t *testing.T) {
	var closed atomic.Int64
	s := legacyServer(t, &closed)
	createA(t, s)
	post(t, s, "/reset/a", Info{{"seed", 1}})
	for _, c := range []struct {
		path string
		body Info
	}{
		{"/batch/step", Info{{"ids2actions", Info{{"a", "x"}, {"b", "x"}}}}},
		{"/batch/reset", Info{{"ids2seeds", Info{{"a", 1}, {"b", 1}}}}},
		{"/batch/close", Info{{"env_ids", []any{"a", "b"}}}},
		{"/batch/reward", Info{{"env_ids", "a"}}},
		{"/batch/reward", Info{{"env_ids", []any{1}}}},
		{"/batch/reset", Info{{"ids2seeds", []any{"a"}}}},
		{"/environments", Info{{"ids2configs", Info{{"c", order("stub", nil)}, {"d", order("stuff", nil)}}}}},
		{"/environments", Info{{"ids2configs", Info{{"c", order("stub", nil)}, {"d", Info{}}}}}},
	} {
		assert.Equal(t, http.StatusInternalServerError, post(t, s, c.path, c.body).status, "%s %v", c.path, c.body)
	}
	assert.Zero(t, closed.Load())
	assert.EqualValues(t, 1, get(t, s, "/health").data["active_environments"])
	a := post(t, s, "/step/a", Info{{"action", "x"}})
	assert.Equal(t, map[string]any{"obs_str": "turn 1"}, a.data["observation"], "no step was played before")
}

func TestLegacyRequestsThatAreNoJSON(t *testing.T) {
	s := legacyServer(t, new(atomic.Int64))
	kind := func(v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set("Content-Type", v) } }
	for _, c := range []struct {
		kind, body string
		status     int
	}{
		{"text/plain", `{"ids2seeds": {}}`, 415}, {"", `{}`, 415}, {"application/json", ``, 400},
		{"application/json", `{`, 400},
		{"application/json", `[1]`, 400}, {"application/json", `null`, 400},
		{"application/json; charset=utf-8", `{"ids2seeds": {}}`, 200}, {"application/vnd.x+json", `{"ids2seeds": {}}`, 200},
	} {
		a := ask(t, s, http.MethodPost, "/batch/reset", []byte(c.body), kind(c.kind))
		assert.Equal(t, c.status, a.status, "%s %s", c.kind, c.body)
	}
}

// Creating an environment with an id that is in use closes the older one.
func TestEnvironmentOfTheSameNameIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int64
		s := legacyServer(t, &closed)
		for range 3 {
			createA(t, s)
		}
		synctest.Wait()
		assert.EqualValues(t, 2, closed.Load())
		assert.EqualValues(t, 1, get(t, s, "/health").data["active_environments"])
		assert.Contains(t, get(t, s, "/metrics").text,
			"vagen_env_sessions_closed_total{reason=\"replaced\"} 2\n")
	})
}

// An environment that is replaced during shutdown is closed, too, although Close no longer
// finds it in the list.
func TestEnvironmentThatIsReplacedDuringShutdownIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int64
		hold := make(chan struct{})
		var made atomic.Int64
		plain := counted(&closed)
		r := new(env.Registry)
		require.NoError(t, r.Register("stub", func(config map[string]any) (env.Env, error) {
			if made.Add(1) > 1 {
				<-hold
			}
			return plain(config)
		}))
		o := DefaultServerOptions()
		o.Legacy = r
		s, err := NewServer(o)
		require.NoError(t, err)
		createA(t, s)
		var both sync.WaitGroup
		both.Go(func() { post(t, s, "/environments", Info{{"ids2configs", Info{{"a", order("stub", nil)}}}}) })
		synctest.Wait()
		both.Go(func() { assert.NoError(t, s.Close(t.Context())) })
		synctest.Wait()
		close(hold)
		both.Wait()
		synctest.Wait()
		assert.EqualValues(t, 2, closed.Load())
	})
}

func TestLegacyEnvironmentsLiveUntilTheirTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int64
		s := serve(t, func(o *ServerOptions) { o.Legacy, o.LegacyTimeout = legacyStubs(t, &closed), 0 })
		createA(t, s)
		open(t, s, nil)
		time.Sleep(24 * time.Hour)
		assert.EqualValues(t, 1, get(t, s, "/health").data["active_environments"],
			"as the original never ends them")
		assert.EqualValues(t, 0, get(t, s, "/sessions").data["num_sessions"])
		short := serve(t, func(o *ServerOptions) { o.Legacy, o.LegacyTimeout = legacyStubs(t, &closed), time.Hour })
		createA(t, short)
		time.Sleep(2 * time.Hour)
		assert.EqualValues(t, 1, closed.Load())
	})
}

func TestSingleRoutesAnswerOneEnvironment(t *testing.T) {
	s := legacyServer(t, new(atomic.Int64))
	post(t, s, "/environments", Info{{"ids2configs", Info{{"a", order("ending", Info{{"images", 1}})}}}})
	a := post(t, s, "/reset/a", Info{})
	require.Equal(t, http.StatusOK, a.status)
	assert.Contains(t, a.data["observation"].(map[string]any)["obs_str"], "start ")
	assert.Contains(t, a.text, `"multi_modal_data":{"<image>":[{"__pil_image__":"iVBOR`)
	assert.Equal(t, "{\"reward\":2.5}\n", get(t, s, "/reward/a").text)
	assert.Contains(t, get(t, s, "/system_prompt/a").data["system_prompt"], "stub rules")
	assert.Equal(t, http.StatusOK, ask(t, s, http.MethodDelete, "/close/a", nil).status)
	assert.Equal(t, http.StatusInternalServerError, get(t, s, "/reward/a").status)
}
