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

// The failure of an environment is reported in its own entry; the others of the batch
// continue.
func TestAFailureInABatchAffectsOnlyItsEnvironment(t *testing.T) {
	var closed atomic.Int64
	s := legacyServer(t, &closed)
	require.Equal(t, http.StatusOK, post(t, s, "/environments", `{"ids2configs": {
		"good": {"env_name": "stub", "env_config": {}},
		"fails": {"env_name": "stub", "env_config": {"fail_on": "x"}},
		"panics": {"env_name": "stub", "env_config": {"panic_on": "x"}},
		"broken": {"env_name": "stub", "env_config": {"broken": true}},
		"never": {"env_name": "stub", "env_config": {"gaol": 2}},
		"crash": {"env_name": "panicking", "env_config": {}}}}`).status)
	a := post(t, s, "/batch/reset",
		`{"ids2seeds": {"good": 1, "fails": 2, "panics": 3, "broken": 4, "never": 5, "crash": 6}}`)
	assert.JSONEq(t, `{"results": {
		"good": [{"obs_str": "start 1"}, {"seed": 1}],
		"fails": [{"obs_str": "start 2"}, {"seed": 2}],
		"panics": [{"obs_str": "start 3"}, {"seed": 3}],
		"broken": [{}, {"error": "stub cannot reset"}],
		"never": [{}, {"error": "Environment never not found"}],
		"crash": [{}, {"error": "Environment crash not found"}]}}`, a.text)
	a = post(t, s, "/batch/step",
		`{"ids2actions": {"good": "x", "fails": "x", "panics": "x", "broken": 7, "never": "x"}}`)
	got := a.data["results"].(map[string]any)
	assert.Equal(t, map[string]any{"obs_str": "turn 1"}, got["good"].([]any)[0])
	for id, says := range map[string]string{
		"fails": "stub failure", "panics": "stub panic", "broken": "an action must be text, found int64",
		"never": "Environment never not found",
	} {
		assert.Equal(t, []any{map[string]any{}, 0.0, true, map[string]any{"error": says}}, got[id])
	}
	a = post(t, s, "/batch/system_prompt", `{"env_ids": ["good", "never"]}`)
	assert.Equal(t, map[string]any{"good": "stub rules: é ü 漢 \"quoted\" \\ back\r\nslash", "never": ""},
		a.data["system_prompts"])
	assert.Contains(t, a.text, `\u00e9 \u00fc \u6f22`, "text is escaped to ASCII")
	a = post(t, s, "/batch/reward", `{"env_ids": ["good", "never"]}`)
	assert.Equal(t, map[string]any{"good": 0.0, "never": 0.0}, a.data["rewards"])
	a = post(t, s, "/batch/close", `{"env_ids": ["never", "good", "good"]}`)
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
	create := orders("stub", "a")
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
	post(t, s, "/batch/reset", `{"ids2seeds": {"a": 7}}`)
	close(slow)
	require.Eventually(t, func() bool { return closed.Load() == 1 }, time.Minute, time.Millisecond,
		"the first environment is closed")
	a := post(t, s, "/batch/step", `{"ids2actions": {"a": "x"}}`)
	require.Equal(t, map[string]any{"obs_str": "turn 1"}, a.data["results"].(map[string]any)["a"].([]any)[0])
	post(t, s, "/batch/close", `{"env_ids": ["a"]}`)
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
		create := orders("stub", "a", "b")
		leaving := func(path, body string) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			askContext(t, ctx, s, http.MethodPost, path, body)
			time.Sleep(time.Minute)
		}
		leaving("/environments", create)
		require.EqualValues(t, 1, made.Load())
		require.EqualValues(t, 1, closed.Swap(0))
		require.Equal(t, http.StatusOK, post(t, s, "/environments", create).status)
		leaving("/batch/close", `{"env_ids": ["a", "b"]}`)
		require.EqualValues(t, 2, closed.Load())
	})
}

func TestSeedsOfABatchDoNotDependOnTheOrderOfWork(t *testing.T) {
	draw := func() any {
		s := legacyServer(t, new(atomic.Int64))
		post(t, s, "/environments", orders("stub", strings.Split("a b c d e f g h", " ")...))
		return post(t, s, "/batch/reset", `{"ids2seeds": {"a": null, "b": null, "c": null, "d": null, "e": null,
			"f": null, "g": null, "h": null}}`).data["results"]
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
	post(t, s, "/reset/a", `{"seed": 1}`)
	for _, c := range []struct{ path, body string }{
		{"/batch/step", `{"ids2actions": {"a": "x", "b": "x"}}`},
		{"/batch/reset", `{"ids2seeds": {"a": 1, "b": 1}}`},
		{"/batch/close", `{"env_ids": ["a", "b"]}`},
		{"/batch/reward", `{"env_ids": "a"}`},
		{"/batch/reward", `{"env_ids": [1]}`},
		{"/batch/reset", `{"ids2seeds": ["a"]}`},
		{"/environments", `{"ids2configs": {"c": {"env_name": "stub", "env_config": {}},
			"d": {"env_name": "stuff", "env_config": {}}}}`},
		{"/environments", `{"ids2configs": {"c": {"env_name": "stub", "env_config": {}}, "d": {}}}`},
	} {
		assert.Equal(t, http.StatusInternalServerError, post(t, s, c.path, c.body).status, "%s %s", c.path, c.body)
	}
	assert.Zero(t, closed.Load())
	assert.EqualValues(t, 1, get(t, s, "/health").data["active_environments"])
	a := post(t, s, "/step/a", `{"action": "x"}`)
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
		both.Go(func() { post(t, s, "/environments", orders("stub", "a")) })
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
		open(t, s, "null")
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
	post(t, s, "/environments", `{"ids2configs": {"a": {"env_name": "ending", "env_config": {"images": 1}}}}`)
	a := post(t, s, "/reset/a", "{}")
	require.Equal(t, http.StatusOK, a.status)
	assert.Contains(t, a.data["observation"].(map[string]any)["obs_str"], "start ")
	assert.Contains(t, a.text, `"multi_modal_data":{"<image>":[{"__pil_image__":"iVBOR`)
	assert.Equal(t, "{\"reward\":2.5}\n", get(t, s, "/reward/a").text)
	assert.Contains(t, get(t, s, "/system_prompt/a").data["system_prompt"], "stub rules")
	assert.Equal(t, http.StatusOK, ask(t, s, http.MethodDelete, "/close/a", nil).status)
	assert.Equal(t, http.StatusInternalServerError, get(t, s, "/reward/a").status)
}
