package remote

import (
	"context"
	"errors"
	"fmt"
	"image"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/remote/internal/wire"
)

// counted returns a factory of stubs that counts Close calls.
func counted(closed *atomic.Int64) env.Factory {
	return func(config map[string]any) (env.Env, error) {
		e, err := newStub(config)
		if err != nil {
			return nil, err
		}
		e.closed = closed
		return e, nil
	}
}

func TestIdleSessionsAreClosedAndOnlyCallsKeepThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int64
		s := serve(t, func(o *ServerOptions) {
			o.Lite, o.SessionTimeout, o.SweepEvery = counted(&closed), time.Hour, time.Minute
		})
		kept, left := open(t, s, "null"), open(t, s, "null")
		for range 4 {
			time.Sleep(20 * time.Minute)
			require.Equal(t, http.StatusOK, step(t, s, kept, "x").status)
			get(t, s, "/sessions")
		}
		synctest.Wait()
		assert.EqualValues(t, 1, closed.Load())
		assert.Equal(t, "Session "+left+" not found", step(t, s, left, "x").detail)
		list := get(t, s, "/sessions")
		assert.EqualValues(t, 1, list.data["num_sessions"])
		only := list.data["sessions"].([]any)[0].(map[string]any)
		assert.Equal(t, kept, only["session_id"])
		assert.Equal(t, 0.0, only["idle_seconds"])
		assert.Equal(t, 3600.0, only["will_timeout_in"])
	})
}

func TestSessionInACallIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int64
		s := serve(t, func(o *ServerOptions) {
			o.Lite, o.SessionTimeout, o.SweepEvery, o.CallTimeout = counted(&closed), time.Minute, time.Second, 50*time.Minute
		})
		id := open(t, s, `{"wait_on": "w"}`)
		assert.Equal(t, http.StatusGatewayTimeout, step(t, s, id, "w").status, "the call runs for 50 minutes")
		assert.Zero(t, closed.Load())
		time.Sleep(59 * time.Second)
		assert.Equal(t, http.StatusOK, step(t, s, id, "x").status, "its end counts as use")
	})
}

func TestLimitOfSessionsIsSharedByBothProtocols(t *testing.T) {
	s := serve(t, func(o *ServerOptions) { o.Legacy, o.MaxSessions = legacyEnvs(t), 2 })
	id := open(t, s, "null")
	require.Equal(t, http.StatusOK, post(t, s, "/environments", orders("frozenlake", "a")).status)
	const words = "Max sessions limit reached (2). Please try again later or close existing sessions."
	a := post(t, s, "/connect", "{}")
	a.refused(t, http.StatusServiceUnavailable, words)
	a = post(t, s, "/environments", orders("frozenlake", "b"))
	assert.Equal(t, http.StatusServiceUnavailable, a.status)
	assert.Contains(t, a.text, words)
	call(t, s, id, "close", "{}")
	assert.Equal(t, http.StatusOK, post(t, s, "/connect", "{}").status)
	assert.Equal(t, http.StatusOK, ask(t, s, http.MethodDelete, "/close/a", nil).status)
	assert.Equal(t, http.StatusOK, post(t, s, "/connect", "{}").status)
}

// overlapDetector is an environment that notices when it is called twice at once.
type overlapDetector struct {
	stub
	inside  atomic.Int64
	clashes *atomic.Int64
}

func (j *overlapDetector) Step(ctx context.Context, text string) (env.Outcome, error) {
	if j.inside.Add(1) > 1 {
		j.clashes.Add(1)
	}
	defer j.inside.Add(-1)
	time.Sleep(time.Millisecond)
	return j.stub.Step(ctx, text)
}

func TestCallsOfOneSessionComeOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clashes atomic.Int64
		s := serve(t, func(o *ServerOptions) {
			o.Lite = func(map[string]any) (env.Env, error) {
				return &overlapDetector{stub: stub{o: stubOptions{Goal: 100}}, clashes: &clashes}, nil
			}
		})
		id := open(t, s, "null")
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { assert.Equal(t, http.StatusOK, step(t, s, id, "x").status) })
		}
		wg.Wait()
		assert.Zero(t, clashes.Load())
		assert.Equal(t, "turn 51", step(t, s, id, "x").data["obs"])
	})
}

func TestRequestsWaitForASlotNoLongerThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(o *ServerOptions) {
			o.MaxInFlight, o.AdmitTimeout, o.CallTimeout = 1, 5*time.Second, 8*time.Second
		})
		slow, other := open(t, s, `{"wait_on": "w"}`), open(t, s, "null")
		var first said
		done := make(chan struct{})
		go func() {
			defer close(done)
			first = step(t, s, slow, "w")
		}()
		synctest.Wait()
		start := time.Now()
		a := step(t, s, other, "x")
		a.refused(t, http.StatusServiceUnavailable, "server busy")
		assert.Equal(t, 5*time.Second, time.Since(start))
		assert.Equal(t, http.StatusOK, step(t, s, other, "x").status, "the slot is free after 8 s")
		<-done
		first.refused(t, http.StatusGatewayTimeout, "step did not finish in time: the limit is 8s")
	})
}

func TestHangingEnvironmentAffectsOnlyItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		s := serve(t, func(o *ServerOptions) {
			o.MaxInFlight, o.CallTimeout = 1, time.Minute
			o.Lite = func(config map[string]any) (env.Env, error) {
				e, err := newStub(config)
				e.hold = hold
				return e, err
			}
		})
		stuck, fine := open(t, s, `{"hang_on": "h"}`), open(t, s, "null")
		assert.Equal(t, http.StatusGatewayTimeout, step(t, s, stuck, "h").status)
		a := step(t, s, stuck, "x")
		a.refused(t, http.StatusGatewayTimeout, "the call before this step")
		assert.Equal(t, http.StatusOK, step(t, s, fine, "x").status, "its slot was given back")
		close(hold) // so that it can be closed
	})
}

func TestPanicIsAnErrorAnswerAndTheSessionContinues(t *testing.T) {
	s := serve(t, nil)
	id := open(t, s, `{"panic_on": "p"}`)
	a := step(t, s, id, "p")
	a.refused(t, http.StatusInternalServerError, "stub panic")
	assert.Equal(t, "turn 1", step(t, s, id, "x").data["obs"])
	assert.Contains(t, get(t, s, "/metrics").text, "\nvagen_env_panics_total 1\n")
}

func TestConnectThatFailsLeavesNothing(t *testing.T) {
	var closed atomic.Int64
	s := serve(t, func(o *ServerOptions) {
		o.MaxSessions = 1
		o.Lite = func(config map[string]any) (env.Env, error) {
			if config["panic"] == true {
				panic("factory panic")
			}
			return counted(&closed)(config)
		}
	})
	a := post(t, s, "/connect", `{"env_config": {"broken": true}, "seed": 1}`)
	a.refused(t, http.StatusInternalServerError, "stub cannot reset")
	assert.EqualValues(t, 1, closed.Load())
	a = post(t, s, "/connect", `{"env_config": {"gaol": 1}}`)
	a.refused(t, http.StatusInternalServerError, `did you mean "goal"?`)
	a = post(t, s, "/connect", `{"env_config": {"panic": true}}`)
	assert.Equal(t, "factory panic", a.detail)
	a = post(t, s, "/connect", `{"seed": "one"}`)
	assert.Contains(t, a.detail, "seed must be a whole number, found one")
	assert.EqualValues(t, 0, get(t, s, "/sessions").data["num_sessions"])
	open(t, s, "null") // there is room for one
}

// slow is a factory of slow environments.
func slow(f env.Factory, d time.Duration) env.Factory {
	return func(config map[string]any) (env.Env, error) {
		time.Sleep(d)
		return f(config)
	}
}

func TestSessionOfADisconnectedClientIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int64
		s := serve(t, func(o *ServerOptions) { o.Lite = slow(counted(&closed), time.Minute) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.Equal(t, said{}, askContext(t, ctx, s, http.MethodPost, "/connect", `{"seed": 1}`),
			"no client waits for the answer")
		time.Sleep(2 * time.Minute)
		assert.EqualValues(t, 1, closed.Load())
		assert.EqualValues(t, 0, get(t, s, "/sessions").data["num_sessions"])
	})
}

func TestStepContinuesWhenItsClientDisconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(o *ServerOptions) {
			o.Lite = func(map[string]any) (env.Env, error) {
				return &overlapDetector{stub: stub{o: stubOptions{Goal: 9}}, clashes: new(atomic.Int64)}, nil
			}
		})
		id := open(t, s, "null")
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond) // a step takes a millisecond
		defer cancel()
		askContext(t, ctx, s, http.MethodPost, "/call", fmt.Sprintf(`{"session_id": %q, "method": "step"}`, id))
		assert.Equal(t, "turn 2", step(t, s, id, "x").data["obs"])
	})
}

func TestEveryRouteButHealthRequiresTheKey(t *testing.T) {
	s := serve(t, func(o *ServerOptions) { o.APIKey, o.Legacy = "secret", legacyEnvs(t) })
	with := func(header, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(header, value) }
	}
	basic := func(password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth("anybody", password) }
	}
	for _, c := range []struct {
		path string
		set  func(*http.Request)
		want bool
	}{
		{"", func(*http.Request) {}, false},
		{"", with("X-API-Key", "secret"), true},
		{"", with("X-API-Key", "secre"), false},
		{"", with("X-API-Key", "secret "), false},
		{"?token=secret", func(*http.Request) {}, true},
		{"?token=nope", with("X-API-Key", "secret"), false},
		{"?token=", with("X-API-Key", "secret"), true},
		{"", basic("secret"), true},
		{"", basic("other"), false},
	} {
		for path, rt := range s.routes {
			if strings.HasSuffix(path, "/") {
				path += "x"
			}
			a := ask(t, s, rt.verb, path+c.path, nil, c.set)
			refused := a.status == http.StatusUnauthorized
			assert.Equal(t, !c.want && path != "/health", refused, "%s %s%s", rt.verb, path, c.path)
			if refused {
				assert.Equal(t, `{"detail":"unauthorized"}`, a.text)
			}
		}
		a := ask(t, s, http.MethodGet, "/reward/x"+c.path, nil, c.set)
		assert.Equal(t, !c.want, a.status == http.StatusUnauthorized)
	}
}

func TestRequestsBeyondTheLimitsAreRefused(t *testing.T) {
	s := serve(t, func(o *ServerOptions) { o.Limits = Limits{Body: 1000, Parts: 3, Pixels: 20} })
	a := ask(t, s, http.MethodPost, "/connect", make([]byte, 1001))
	a.refused(t, http.StatusRequestEntityTooLarge, "limit of 1000 bytes")
	img, err := wire.EncodeImage(image.NewRGBA(image.Rect(0, 0, 3, 3)), wire.PNG)
	require.NoError(t, err)
	send := func(images ...[]byte) said {
		form := func(r *http.Request) { r.Header.Set("Content-Type", wire.ContentType("multipart/form-data", "B")) }
		return ask(t, s, http.MethodPost, "/connect", wire.Encode("B", []byte("{}"), images, "image/png"), form)
	}
	assert.Equal(t, http.StatusOK, send(img, img).status)
	s.o.Limits.Pixels = 17
	for _, c := range []struct {
		a    said
		says string
	}{
		{send(img, img), "an image of 3×3 pixels, at most 8 more pixels are allowed"},
		{send(img, img, img), "more than 3 parts"},
		{send([]byte("hello")), "neither PNG nor JPEG"},
	} {
		c.a.refused(t, http.StatusInternalServerError, c.says)
	}
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	both := serve(t, func(o *ServerOptions) { o.Legacy = legacyEnvs(t) })
	old := serve(t, func(o *ServerOptions) { o.Lite, o.Legacy = nil, legacyEnvs(t) })
	lite := serve(t, nil)
	for _, c := range []struct {
		s            *Server
		method, path string
		status       int
		html         bool
	}{
		{lite, http.MethodGet, "/", 404, false},
		{lite, http.MethodPost, "/environments", 404, false},
		{lite, http.MethodDelete, "/connect", 405, false},
		{old, http.MethodGet, "/connect", 404, true},
		{old, http.MethodGet, "/batch/step", 405, true},
		{old, http.MethodPost, "/close/x", 405, true},
		{old, http.MethodPost, "/reset/", 404, true},
		{both, http.MethodGet, "/reset/a/b", 404, false},
		{both, http.MethodGet, "/step/a", 405, true},
	} {
		a := ask(t, c.s, c.method, c.path, nil)
		assert.Equal(t, c.status, a.status, "%s %s", c.method, c.path)
		assert.Equal(t, c.html, strings.HasPrefix(a.text, "<!doctype html>"), "%s %s", c.method, c.path)
	}
}

func TestErrorsOfBadCallsNameTheCause(t *testing.T) {
	s := serve(t, nil)
	id := open(t, s, "null")
	for _, c := range []struct {
		data   string
		status int
		detail string
	}{
		{`{"session_id": "ID", "method": "step", "params": []}`, 500, "params must be an object, found []interface {}"},
		{`{"session_id": "ID", "method": "step", "params": {"action_str": 5}}`, 500,
			"action_str must be text, found int64"},
		{`{"session_id": "ID", "method": "reset", "params": {"seed": 1.5}}`, 500,
			"seed must be a whole number, found 1.5"},
		{`{"session_id": 17, "method": "step"}`, 404, "Session 17 not found"},
		{`{"session_id": "", "method": "step"}`, 400, "session_id required"},
		{`{"session_id": "ID", "method": {}}`, 400, "method required"},
	} {
		a := post(t, s, "/call", strings.Replace(c.data, "ID", id, 1))
		assert.Equal(t, c.status, a.status, c.data)
		assert.Equal(t, c.detail, a.detail, c.data)
	}
	a := call(t, s, id, "reset", `{"seed": 4.0}`)
	assert.Equal(t, "start 4", a.data["obs"], "a float without fraction is a whole number")
}

func TestResetsWithoutASeedFollowTheServersSeed(t *testing.T) {
	draw := func(seed uint64) []any {
		s := serve(t, func(o *ServerOptions) { o.Seed = seed })
		id := open(t, s, "null")
		var seeds []any
		for range 3 {
			a := call(t, s, id, "reset", `{"seed": null}`)
			seeds = append(seeds, a.data["info"].(map[string]any)["seed"])
		}
		return seeds
	}
	first := draw(1)
	assert.Equal(t, first, draw(1))
	assert.NotEqual(t, first, draw(2))
	assert.NotEqual(t, first[0], first[1])
	for _, v := range first {
		assert.GreaterOrEqual(t, v, int64(0))
	}
}

func TestMetricsAreAnExposition(t *testing.T) {
	s := serve(t, func(o *ServerOptions) { o.MaxInFlight = 3 })
	id := open(t, s, `{"fail_on": "f"}`)
	step(t, s, id, "x")
	step(t, s, id, "f")
	ask(t, s, "BREW", "/nowhere", nil)
	text := get(t, s, "/metrics").text
	line := regexp.MustCompile(`^([a-z_]+)(\{[a-z_]+="[^"\\]*"(,[a-z_]+="[^"\\]*")*\})? [-+0-9.e]+$`)
	declared := map[string]bool{}
	for l := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if name, ok := strings.CutPrefix(l, "# TYPE "); ok {
			name, _, _ = strings.Cut(name, " ")
			assert.False(t, declared[name], "%s is declared twice", name)
			declared[name] = true
			continue
		}
		if strings.HasPrefix(l, "# HELP ") {
			continue
		}
		m := line.FindStringSubmatch(l)
		if assert.NotNil(t, m, l) {
			name := m[1]
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if base := strings.TrimSuffix(name, suffix); declared[base] {
					name = base
				}
			}
			assert.True(t, declared[name], l)
		}
	}
	for _, want := range []string{
		`vagen_env_sessions{protocol="lite"} 1`, `vagen_env_sessions_opened_total 1`,
		`vagen_env_call_failures_total{call="step"} 1`, `vagen_env_call_seconds_count{call="step"} 2`,
		`vagen_env_call_seconds_bucket{call="step",le="+Inf"} 2`, `vagen_env_inflight_requests 0`,
		`vagen_env_requests_total{route="/call",method="POST",code="200"} 1`,
		`vagen_env_refused_requests_total{reason="origin"} 0`,
		`vagen_env_requests_total{route="/call",method="POST",code="500"} 1`,
		`vagen_env_requests_total{route="other",method="other",code="404"} 1`,
	} {
		assert.Contains(t, text, want+"\n")
	}
}

func TestServerOptionsAreCheckedAllAtOnce(t *testing.T) {
	_, err := NewServer(ServerOptions{MaxSessions: -1, SessionTimeout: -1, Images: "webp"})
	require.Error(t, err)
	for _, name := range []string{"Lite, Legacy, Other", "MaxSessions", "SessionTimeout", "CallTimeout", "BatchWorkers",
		"Images", "Limits.Body", "Limits.Parts", "Limits.Pixels"} {
		assert.ErrorContains(t, err, "remote: "+name+": ")
	}
}

func TestFactoryWithoutAnEnvironmentIsAnError(t *testing.T) {
	s := serve(t, func(o *ServerOptions) { o.Lite = func(map[string]any) (env.Env, error) { return nil, nil } })
	assert.Equal(t, "the factory returned no environment", post(t, s, "/connect", "{}").detail)
}

func TestJPEGServiceSendsJPEG(t *testing.T) {
	s := serve(t, func(o *ServerOptions) { o.Images = JPEG })
	a := post(t, s, "/connect", `{"env_config": {"images": 1}, "seed": 1}`)
	assert.Contains(t, a.text, "filename=\"0.png\"\r\nContent-Type: image/jpeg\r\n\r\n\xff\xd8",
		"the name ends in png whatever the format is")
}

// failing closes with an error.
type failing struct{ stub }

func (*failing) Close() error { return errors.New("stub will not close") }

func TestCloseReportsEnvironmentsThatDoNotClose(t *testing.T) {
	o := DefaultServerOptions()
	o.Lite = func(map[string]any) (env.Env, error) { return new(failing), nil }
	s, err := NewServer(o)
	require.NoError(t, err)
	id := open(t, s, "null")
	err = s.Close(context.Background())
	require.ErrorContains(t, err, "stub will not close")
	assert.ErrorContains(t, err, id)
	assert.NoError(t, s.Close(context.Background()), "the second time there is nothing to do")
	assert.Equal(t, http.StatusServiceUnavailable, post(t, s, "/connect", "{}").status)
	assert.Equal(t, http.StatusNotFound, step(t, s, id, "x").status)
	assert.Equal(t, http.StatusOK, get(t, s, "/health").status)
}

func TestCloseWaitsForCallsAsLongAsItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int64
		hold := make(chan struct{})
		o := DefaultServerOptions()
		o.Lite = func(config map[string]any) (env.Env, error) {
			e, err := newStub(config)
			e.closed, e.hold = &closed, hold
			return e, err
		}
		s, err := NewServer(o)
		require.NoError(t, err)
		waits, hangs := open(t, s, `{"wait_on": "w"}`), open(t, s, `{"hang_on": "h"}`)
		open(t, s, "null")
		var answers sync.WaitGroup
		answers.Go(func() {
			a := step(t, s, waits, "w")
			assert.Equal(t, http.StatusServiceUnavailable, a.status, fmt.Sprint(a))
		})
		answers.Go(func() {
			assert.Equal(t, http.StatusServiceUnavailable, step(t, s, hangs, "h").status)
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start := time.Now()
		err = s.Close(ctx)
		assert.Equal(t, 31*time.Second, time.Since(start), "30 s for the calls, one for closing")
		assert.ErrorContains(t, err, "1 environments are still busy")
		assert.EqualValues(t, 2, closed.Load(), "the idle one and the one that honours its context")
		answers.Wait()
		close(hold)
	})
}
