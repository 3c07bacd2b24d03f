package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/env/internal/envtest"
	"vagen/env/remote/hosts"
	"vagen/env/remote/internal/wire"
)

// script is a service with a list of answers, one per request; the last one is repeated.
// It records the time and URL of each request.
type script struct {
	answers []answerFunc
	urls    []string
	calls   []string // method of the session, or the path
	at      []time.Duration
	bodies  [][]byte
	start   time.Time
}

type answerFunc func(*http.Request) (*http.Response, error)

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.start.IsZero() {
		s.start = time.Now()
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	call := r.URL.Path
	if m, err := wire.Decode(r.Header.Get("Content-Type"), body, 10); err == nil && m.Data["method"] != nil {
		call = m.Data["method"].(string)
	}
	s.urls, s.calls, s.at = append(s.urls, r.URL.Host), append(s.calls, call), append(s.at, time.Since(s.start))
	s.bodies = append(s.bodies, body)
	f := s.answers[min(len(s.calls), len(s.answers))-1]
	return f(r)
}

func response(r *http.Request, status int, kind string, body []byte) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}},
		Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

// data answers with a multipart body of JSON and images.
func data(json string, images ...[]byte) answerFunc {
	return func(r *http.Request) (*http.Response, error) {
		boundary := wire.NewBoundary()
		return response(r, http.StatusOK, wire.ContentType("multipart/mixed", boundary),
			wire.Encode(boundary, []byte(json), images, "image/png"))
	}
}

func status(code int, detail string) answerFunc {
	return func(r *http.Request) (*http.Response, error) {
		return response(r, code, kindJSON, fmt.Appendf(nil, `{"detail": %q}`, detail))
	}
}

func raw(code int, kind, body string) answerFunc {
	return func(r *http.Request) (*http.Response, error) { return response(r, code, kind, []byte(body)) }
}

func broken(err error) answerFunc {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// hang answers nothing until the client gives up.
func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// threeHosts is the list of services of tests that change the service.
var threeHosts = []string{"http://a:1", "http://b:2", "http://c:3"}

var (
	started   = data(`{"session_id": "` + strings.Repeat("a", 32) + `", "obs": "start", "info": {}}`)
	turn      = data(`{"obs": "turn", "reward": 0.5, "done": false, "info": {}}`)
	refusal   = broken(&net.OpError{Op: "dial", Err: errors.New("connection refused")})
	cut       = broken(io.ErrUnexpectedEOF)
	noAnswers = status(http.StatusServiceUnavailable, "server busy")
)

// scripted returns a client whose jitter is 1 and whose service answers with the given function.
func scripted(t testing.TB, change func(*ClientOptions), answers ...answerFunc) (*Client, *script) {
	t.Helper()
	sc := &script{answers: answers}
	o := DefaultClientOptions()
	o.URLs, o.Transport, o.Jitter = []string{"http://a:1"}, sc, func() float64 { return 0.5 }
	pool := hosts.DefaultOptions()
	pool.Pause, pool.MaxPause = time.Hour, time.Hour // no probes among the calls
	o.Hosts = hosts.New(pool)
	if change != nil {
		change(&o)
	}
	c, err := NewClient(o)
	require.NoError(t, err)
	return c, sc
}

// A request is repeated only if it cannot have changed the episode.
func TestClientRepeatsOnlyWhatIsSafe(t *testing.T) {
	resend := func(o *ClientOptions) { o.Resend = true }
	python := func(o *ClientOptions) { o.Python = true }
	const all = 7 // attempts: the first and six retries
	for _, c := range []struct {
		call   string
		what   string
		answer answerFunc
		change func(*ClientOptions)
		want   int
		err    error
	}{
		{"connect", "refused", refusal, nil, all, nil},
		{"connect", "cut off", cut, nil, all, nil},
		{"connect", "hanging", hang, nil, all, context.DeadlineExceeded},
		{"connect", "busy", noAnswers, nil, all, ErrBusy},
		{"connect", "bad gateway", status(502, "x"), nil, all, ErrRemote},
		{"connect", "fails alike", status(500, "no such option"), nil, 2, ErrRemote},
		{"connect", "wrong key", status(401, "unauthorized"), nil, 1, ErrUnauthorized},
		{"connect", "wrong path", status(404, "Not Found"), nil, 1, ErrProtocol},
		{"connect", "garbage", raw(200, "text/plain", "hello"), nil, all, ErrProtocol},
		{"connect", "no session", data("{}"), nil, all, ErrProtocol},

		{"system_prompt", "cut off", cut, nil, all, nil},
		{"system_prompt", "busy", noAnswers, nil, all, ErrBusy},
		{"system_prompt", "fails", status(500, "x"), nil, 1, ErrRemote},
		{"reset", "cut off", cut, nil, all, nil},
		{"reset", "hanging", hang, nil, all, context.DeadlineExceeded},

		{"step", "refused", refusal, nil, all, nil},
		{"step", "busy", noAnswers, nil, all, ErrBusy},
		{"step", "cut off", cut, nil, 1, ErrUncertain},
		{"step", "hanging", hang, nil, 1, ErrUncertain},
		{"step", "bad gateway", status(502, "x"), nil, 1, ErrUncertain},
		{"step", "took too long", status(504, "x"), nil, 1, ErrUncertain},
		{"step", "garbage", raw(200, "text/plain", "hello"), nil, 1, ErrProtocol},
		{"step", "fails", status(500, "x"), nil, 1, ErrRemote},
		{"step", "lost", status(404, "Session x not found"), nil, 1, ErrSession},
		{"step", "cut off, but may be sent again", cut, resend, all, ErrUncertain},
		{"step", "fails, whatever is sent", status(500, "x"), resend, 1, ErrRemote},

		{"connect", "wrong key, Python", status(401, "unauthorized"), python, all, ErrUnauthorized},
		{"step", "fails, Python", status(500, "x"), python, all, ErrRemote},
		{"step", "cut off, Python", cut, python, all, ErrUncertain},
		{"step", "lost, Python", status(404, "Session x not found"), python, all, ErrSession},
	} {
		t.Run(c.call+" "+c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers := []answerFunc{started, c.answer}
				if c.call == "connect" {
					answers = answers[1:]
				}
				client, sc := scripted(t, c.change, answers...)
				_, err := client.Reset(t.Context(), 1)
				switch c.call {
				case "connect":
				case "system_prompt":
					_, err = client.System(t.Context())
				case "reset":
					_, err = client.Reset(t.Context(), 2)
				case "step":
					_, err = client.Step(t.Context(), "x")
				}
				require.Error(t, err)
				if c.err != nil {
					assert.ErrorIs(t, err, c.err)
				}
				var e *Error
				assert.ErrorAs(t, err, &e)
				assert.Len(t, sc.calls, c.want+len(answers)-1)
			})
		})
	}
}

// Jitter is 0.5 here, so that the delays are Backoff·2ⁿ·(0.7+0.6·0.5).
func TestDelaysAndURLs(t *testing.T) {
	for _, c := range []struct {
		name   string
		call   string
		python bool
		delays []int // seconds before each retry
		urls   string
	}{
		{"an opening leaves a service that was ejected after three attempts", "connect", false,
			[]int{2, 4, 0, 8, 16, 0, 32, 64}, "a a a b b b c c c"},
		{"opening, Python", "connect", true, []int{2, 4, 8, 16, 32, 64}, "a a a a a b c"},
		{"a session stays where it is, and is given up when the service is ejected", "system_prompt", false,
			[]int{2, 4, 8, 16}, "a a a a a"},
		{"Python looks everywhere", "system_prompt", true, []int{2, 4, 8, 16, 32, 64}, "a a a a a b c"},
	} {
		synctest.Test(t, func(t *testing.T) {
			answers := []answerFunc{started, cut}
			if c.call == "connect" {
				answers = answers[1:]
			}
			client, sc := scripted(t, func(o *ClientOptions) { o.URLs, o.Python = threeHosts, c.python }, answers...)
			_, err := client.Reset(t.Context(), 1)
			if c.call != "connect" {
				_, err = client.System(t.Context())
				sc.at, sc.urls = sc.at[1:], sc.urls[1:]
			}
			require.Error(t, err)
			var delays []int
			for i := range len(sc.at) - 1 {
				delays = append(delays, int((sc.at[i+1] - sc.at[i]).Seconds()))
			}
			assert.Equal(t, c.delays, delays, c.name)
			assert.Equal(t, c.urls, strings.NewReplacer(":1", "", ":2", "", ":3", "").Replace(strings.Join(sc.urls, " ")),
				c.name)
		})
	}
}

func TestMaxDelayCapsWhatPythonDoesNotCap(t *testing.T) {
	for _, python := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			client, sc := scripted(t, func(o *ClientOptions) { o.Python, o.MaxDelay = python, 3*time.Second }, started, cut)
			envtest.Reset(t, client, 1)
			_, err := client.System(t.Context())
			require.Error(t, err)
			total := map[bool]time.Duration{false: (2 + 5*3) * time.Second,
				true: (2 + 4 + 8 + 16 + 32 + 64) * time.Second}[python]
			assert.Equal(t, total, sc.at[len(sc.at)-1]-sc.at[1])
		})
	}
}

func TestClientKeepsTheServiceThatAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, sc := scripted(t, func(o *ClientOptions) { o.URLs, o.FailoverAfter = threeHosts, 0 }, refusal, started, turn)
		envtest.Reset(t, client, 1)
		envtest.Play(t, client, "x")
		assert.Equal(t, []string{"a:1", "b:2", "b:2"}, sc.urls)
	})
}

func TestUnclearStepEndsTheEpisodeUntilReset(t *testing.T) {
	client, sc := scripted(t, nil, started, cut, started, turn)
	_, err := client.Step(t.Context(), "x")
	assert.ErrorIs(t, err, ErrNotReset)
	envtest.Reset(t, client, 1)
	for range 2 {
		_, err = client.Step(t.Context(), "x")
		assert.ErrorIs(t, err, ErrUncertain)
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	}
	assert.Equal(t, []string{"/connect", "step"}, sc.calls, "the second one was not sent")
	envtest.Reset(t, client, 2)
	out := envtest.Play(t, client, "x")
	assert.Equal(t, 0.5, out.Reward.Of(partReward))
}

func TestResetOpensALostSessionAgain(t *testing.T) {
	lost := status(404, "Session x not found")
	client, sc := scripted(t, nil, started, lost, lost, started)
	envtest.Reset(t, client, 1)
	_, err := client.Step(t.Context(), "x")
	assert.ErrorIs(t, err, ErrSession)
	envtest.Reset(t, client, 2)
	assert.Equal(t, []string{"/connect", "step", "reset", "/connect"}, sc.calls)
}

func TestServiceThatDoesNotResetWhenItOpens(t *testing.T) {
	client, sc := scripted(t, nil, data(`{"session_id": "s"}`), data(`{"obs": "o", "info": {"k": 1}}`))
	o := envtest.Reset(t, client, 5)
	assert.Equal(t, "o", o.Text)
	assert.Equal(t, map[string]any{"k": int64(1)}, client.Info())
	assert.Equal(t, []string{"/connect", "reset"}, sc.calls)
	assert.Contains(t, string(sc.bodies[1]), `"params": {"seed": 5}`)
}

func TestContextEndsTheWaitForARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, sc := scripted(t, nil, refusal)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, errors.New("enough"))
		defer cancel()
		start := time.Now()
		_, err := client.Reset(ctx, 1)
		assert.ErrorContains(t, err, "enough")
		assert.ErrorContains(t, err, "connection refused", "the error includes the last failure")
		assert.Equal(t, 5*time.Second, time.Since(start))
		assert.Len(t, sc.calls, 2)
	})
}

func TestCloseDoesNotWaitForADeadService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := scripted(t, nil, started, hang)
		envtest.Reset(t, client, 1)
		start := time.Now()
		assert.ErrorIs(t, client.Close(), context.DeadlineExceeded)
		assert.Equal(t, closing, time.Since(start))
		assert.NoError(t, client.Close())
		_, err := client.Reset(t.Context(), 1)
		assert.ErrorIs(t, err, ErrClosed)
	})
	client, _ := scripted(t, func(o *ClientOptions) { o.Python, o.Retries = true, 0 }, started, cut)
	envtest.Reset(t, client, 1)
	assert.NoError(t, client.Close(), "the original ignores it")
}

// Error messages have the URL, route, status and detail, and no secrets.
func TestErrorsNameURLRouteStatusAndDetail(t *testing.T) {
	client, _ := scripted(t, func(o *ClientOptions) {
		o.URLs, o.Token, o.Retries = []string{"https://user:hidden@host:8443/base/"}, "hidden", 0
	}, status(500, "the simulator crashed"))
	_, err := client.Reset(t.Context(), 1)
	assert.EqualError(t, err, "remote: POST /connect at https://user:xxxxx@host:8443/base: status 500: the environment failed: the simulator crashed")
	client, _ = scripted(t, func(o *ClientOptions) { o.Retries = 0 }, started,
		raw(500, "text/html", "<html><p>It &lt;broke&gt;.</p>"))
	envtest.Reset(t, client, 1)
	_, err = client.Step(t.Context(), "x")
	assert.EqualError(t, err, "remote: POST /call step at http://a:1: status 500: the environment failed: It <broke>.")
	client, _ = scripted(t, func(o *ClientOptions) { o.Retries = 0 }, status(500, strings.Repeat("x", 5000)))
	_, err = client.Reset(t.Context(), 1)
	assert.Less(t, len(err.Error()), 1000)
}

func TestKeyIsSentAsAHeader(t *testing.T) {
	var got string
	client, _ := scripted(t, func(o *ClientOptions) { o.Token = "k" }, func(r *http.Request) (*http.Response, error) {
		got = r.Header.Get("X-API-Key")
		return started(r)
	})
	envtest.Reset(t, client, 1)
	assert.Equal(t, "k", got)
}

func TestRedirectionsAreNotFollowed(t *testing.T) {
	client, sc := scripted(t, nil, func(r *http.Request) (*http.Response, error) {
		a, err := response(r, http.StatusTemporaryRedirect, "text/plain", nil)
		a.Header.Set("Location", "http://elsewhere/connect")
		return a, err
	})
	_, err := client.Reset(t.Context(), 1)
	assert.ErrorIs(t, err, ErrProtocol)
	assert.Equal(t, []string{"a:1"}, sc.urls)
}

func TestRetriesAreLogged(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			client, _ := scripted(t, func(o *ClientOptions) {
				o.Log, o.LogRetries, o.Token = slog.New(slog.NewTextHandler(&log, nil)), wanted, "hidden"
			}, refusal, started)
			envtest.Reset(t, client, 1)
			assert.Equal(t, wanted, strings.Contains(log.String(), "attempt=1 of=7 delay=2s next=http://a:1"), log.String())
			assert.NotContains(t, log.String(), "hidden")
		})
	}
}
