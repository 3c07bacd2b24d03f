package view_test

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/testkit"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/view"
)

var paths = []string{
	"/", "/app.js", "/nothing", "/api/", "/api/runs", "/api/config", "/api/estimators", "/api/runs/r0/metrics",
	"/api/runs/r0/episodes", "/api/runs/r9/episodes",
	"/api/runs/r0/episode?key=train/1/0-0", "/api/runs/r0/episode?key=x",
	"/api/runs/r0/credit?key=train/1/0-0&estimator=grpo", "/api/runs/r0/measured?key=train/1/0-0",
	"/api/runs/r0/image?kind=train&name=x",
}

// ask sends a request to a handler without a connection.
func ask(h http.Handler, method, target string, change func(*http.Request)) *http.Response {
	r := httptest.NewRequest(method, "http://127.0.0.1:7000"+target, nil)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func handlerOf(t testing.TB, key string, dirs ...string) http.Handler {
	t.Helper()
	h, err := (&view.Server{Runs: dirs, Key: key}).Handler()
	require.NoError(t, err)
	return h
}

// TestEveryAnswerForbidsForeignContent: also errors, redirects and refusals.
func TestEveryAnswerForbidsForeignContent(t *testing.T) {
	f := trainRun(t, 1)
	for _, key := range []string{"", "secret"} {
		h := handlerOf(t, key, f.dir)
		for _, path := range append(paths, "/?key=secret", "/?key=wrong") {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
				a := ask(h, method, path, nil)
				require.Equal(t, "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
					a.Header.Get("Content-Security-Policy"), path)
				require.Equal(t, "nosniff", a.Header.Get("X-Content-Type-Options"))
				require.Equal(t, "no-referrer", a.Header.Get("Referrer-Policy"))
				require.Equal(t, "no-store", a.Header.Get("Cache-Control"), path)
				require.Less(t, a.StatusCode, 500, path)
				if method != http.MethodGet && method != http.MethodHead {
					require.Equal(t, http.StatusMethodNotAllowed, a.StatusCode)
				}
			}
		}
	}
}

func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	f := trainRun(t, 1)
	open, keyed := handlerOf(t, "", f.dir), handlerOf(t, "k", f.dir)
	lan := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 80}
	for i, c := range []struct {
		h                          http.Handler
		path, host, page, site, op string
		at                         net.Addr
		want                       int
	}{
		{h: open, path: "/api/runs", host: "localhost:80", want: 200},
		{h: open, path: "/api/runs", host: "[::1]:80", want: 200},
		{h: open, path: "/api/runs", host: "127.0.0.1", want: 200},
		{h: open, path: "/api/runs", host: "evil.example", want: 403},
		{h: open, path: "/", host: "localhost.evil.example:80", want: 403},
		{h: open, path: "/", host: "192.0.2.7", want: 403}, {h: open, path: "/", host: "", want: 403},
		{h: open, path: "/", host: "localhost", at: lan, want: 403},
		{h: open, path: "/api/runs", host: "localhost:80", page: "http://localhost:80", want: 200},
		{h: open, path: "/api/runs", host: "localhost:80", page: "http://localhost:3000", want: 403},
		{h: open, path: "/api/runs", host: "localhost:80", page: "https://localhost:80", want: 403},
		{h: open, path: "/api/runs", host: "localhost:80", page: "null", want: 403},
		{h: open, path: "/api/runs", host: "localhost", site: "same-origin", want: 200},
		{h: open, path: "/api/runs", host: "localhost", site: "cross-site", op: "navigate", want: 403},
		{h: open, path: "/api/runs", host: "localhost", site: "same-site", want: 403},
		{h: open, path: "/", host: "localhost", site: "cross-site", op: "navigate", want: 200},
		{h: open, path: "/", host: "localhost", site: "cross-site", op: "no-cors", want: 403},
		{h: keyed, path: "/api/runs?key=k", host: "box.example", at: lan, want: 200},
		{h: keyed, path: "/api/runs?key=k", host: "box.example", page: "http://evil.example", want: 403},
	} {
		a := ask(c.h, http.MethodGet, c.path, func(r *http.Request) {
			r.Host = c.host
			for name, value := range map[string]string{"Origin": c.page, "Sec-Fetch-Site": c.site, "Sec-Fetch-Mode": c.op} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
			if c.at != nil {
				*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.at))
			}
		})
		require.Equal(t, c.want, a.StatusCode, "%d: %+v", i, c)
	}
}

// TestTheKeyIsNeededForEverything, and is replaced by a cookie that does not hold it.
func TestTheKeyIsNeededForEverything(t *testing.T) {
	f := trainRun(t, 1)
	h := handlerOf(t, "secret", f.dir)
	a := ask(h, http.MethodGet, "/?key=secret&x=1", nil)
	require.Equal(t, http.StatusSeeOther, a.StatusCode)
	require.Equal(t, "/?x=1", a.Header.Get("Location"))
	require.Len(t, a.Cookies(), 1)
	cookie := a.Cookies()[0]
	for _, path := range paths {
		require.Equal(t, 401, ask(h, http.MethodGet, path, nil).StatusCode, path)
		for _, wrong := range []string{"", "secre", "secret ", "SECRET"} {
			require.Equal(t, 401, ask(h, http.MethodGet, path, func(r *http.Request) {
				r.Header.Set("X-API-Key", wrong)
				r.AddCookie(&http.Cookie{Name: cookie.Name, Value: wrong})
			}).StatusCode, path)
		}
	}
	require.Equal(t, 200, ask(h, http.MethodGet, "/api/runs", func(r *http.Request) {
		r.Header.Set("X-API-Key", "secret")
	}).StatusCode)
	require.Equal(t, 200, ask(h, http.MethodGet, "/api/runs?key=secret", nil).StatusCode)

	require.True(t, cookie.HttpOnly && cookie.SameSite == http.SameSiteStrictMode)
	require.NotContains(t, cookie.Value, "secret")
	require.NotContains(t, cookie.Value, hex.EncodeToString([]byte("secret")))
	require.Equal(t, 200, ask(h, http.MethodGet, "/api/runs", func(r *http.Request) { r.AddCookie(cookie) }).StatusCode)
	other := handlerOf(t, "other", f.dir)
	require.Equal(t, 401, ask(other, http.MethodGet, "/api/runs", func(r *http.Request) {
		r.AddCookie(cookie)
	}).StatusCode)
	require.NotEqual(t, cookie.Name, ask(other, http.MethodGet, "/?key=other", nil).Cookies()[0].Name,
		"servers on two ports of a host have the same cookies")
	a = ask(h, http.MethodGet, "//evil.example/?key=secret", nil)
	require.NotRegexp(t, `^(https?:|//)`, a.Header.Get("Location"), "a redirect stays on the server")
}

func TestLargeRequestsAreRefused(t *testing.T) {
	f := trainRun(t, 1)
	h := handlerOf(t, "", f.dir)
	require.Equal(t, http.StatusRequestURITooLong, ask(h, http.MethodGet, "/api/runs?x="+strings.Repeat("a", 9000),
		nil).StatusCode)
	require.Equal(t, http.StatusBadRequest, ask(h, http.MethodGet, "/api/runs", func(r *http.Request) {
		r.ContentLength = 5
		r.Body = io.NopCloser(strings.NewReader("hello"))
	}).StatusCode)
}

// TestNoFileOutsideTheRunIsRead: by names, by links, and by names in files of episodes.
func TestNoFileOutsideTheRunIsRead(t *testing.T) {
	f := trainRun(t, 1)
	outside := t.TempDir()
	const secret = "TOP SECRET"
	testkit.Write(t, filepath.Join(outside, "secret"), secret)
	hash := strings.Repeat("ab", 32)
	require.NoError(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(f.rollouts, "images", hash+".png")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(f.rollouts, "step_7.parquet")))
	require.NoError(t, os.Mkdir(filepath.Join(outside, "images"), 0o755))
	testkit.Write(t, filepath.Join(outside, "images", hash+".png"), secret)
	require.NoError(t, os.MkdirAll(filepath.Join(f.dir, "credit", "train", "1"), 0o755))
	require.NoError(t, os.Symlink(outside, filepath.Join(f.dir, "credit", "episodes")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "secret"),
		filepath.Join(f.dir, "credit", "train", "1", "0-0.json")))
	require.NoError(t, os.MkdirAll(filepath.Join(f.dir, "episodes", "step_1"), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(outside, "secret"),
		filepath.Join(f.dir, "episodes", "step_1", "episode_0_turn_0_0.png")))
	require.NoError(t, os.Symlink(outside, filepath.Join(f.dir, "checkpoints")))
	testkit.Write(t, filepath.Join(f.dir, ".hidden"), secret)

	// An episode whose images have hostile names, which store.Absent writes as they are.
	names := []string{"../../secret", "/etc/passwd", "..%2f..%2fsecret", hash, "", "\x00", strings.Repeat("a", 5000),
		`C:\x`, "images/" + hash}
	bad := &rollout.Trajectory{Episode: rollout.Episode{Env: "../../x", Group: 9}, End: rollout.EndDone}
	for _, name := range names {
		turn := rollout.Turn{Observation: env.Observation{Text: "<image>"}}
		turn.Observation.Images = append(turn.Observation.Images, store.Absent(name))
		bad.Turns = append(bad.Turns, turn)
	}
	require.NoError(t, store.Save(filepath.Join(f.rollouts, "step_5.parquet"), 5, []*rollout.Trajectory{bad}))

	s := serveRuns(t, "", f.dir)
	targets := []string{"/api/runs/r0/episode?key=train/5/9-0", "/api/runs", "/api/runs/r0/episodes",
		"/api/runs/r0/measured?key=train/1/0-0", "/api/runs/r0/episode?key=train/7/0-0",
		"/api/runs/r0/episode?key=train/1/0-0", "/config.yaml", "/static/", "/.hidden", "/../.hidden", "/..%2f.hidden",
		"/%2e%2e/%2e%2e/config.yaml"}
	for _, name := range append(names, hash+".png", "../run.id", "../../config.yaml", "episode_0_turn_0_0.png", "..") {
		for _, kind := range []string{"train", "val", "measured", "shown", "..", "", "images/.."} {
			for _, step := range []string{"1", "..", "-1", "1/../.."} {
				targets = append(targets, "/api/runs/r0/image?"+url.Values{"kind": {kind}, "step": {step}, "name": {name}}.Encode())
			}
		}
	}
	for _, key := range []string{"train/../0-0", "train/1/../../../secret", "train/01/0-0", "val/1/0-0/../..",
		"train/99999999999999/0-0"} {
		for _, what := range []string{"episode", "measured", "credit"} {
			targets = append(targets, "/api/runs/r0/"+what+"?"+url.Values{"key": {key}, "estimator": {"grpo"}}.Encode())
		}
	}
	for _, target := range targets {
		answer, err := http.Get(s.URL + target)
		require.NoError(t, err)
		raw, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Less(t, answer.StatusCode, 500, target)
		require.NotContains(t, string(raw), secret, target)
		require.NotContains(t, string(raw), "root:", target)
		if strings.Contains(target, "/image?") {
			require.GreaterOrEqual(t, answer.StatusCode, 400, target)
		}
	}
	a := s.episode(t, "train/5/9-0")
	for _, turn := range a.Turns {
		require.Nil(t, turn.Images[0])
	}
	r := s.runs(t)
	require.Contains(t, strings.Join(r.Runs[0].Problems, " "), "step_7.parquet")
	require.Contains(t, strings.Join(r.Runs[0].Problems, " "), "credit/episodes")
}

// TestWithoutAKeyOnlyLoopbackIsServed, and a server ends with its context.
func TestWithoutAKeyOnlyLoopbackIsServed(t *testing.T) {
	f := trainRun(t, 1)
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	require.ErrorIs(t, (&view.Server{Runs: []string{f.dir}}).Serve(t.Context(), ln), view.ErrKeyNeeded)

	ln, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- (&view.Server{Runs: []string{f.dir}}).Serve(ctx, ln) }()
	answer, err := http.Get("http://" + ln.Addr().String() + "/api/events")
	require.NoError(t, err)
	stop()
	require.NoError(t, <-ended, "listeners do not keep it")
	_ = answer.Body.Close()
}
