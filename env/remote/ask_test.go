package remote

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/env/remote/internal/pyjson"
	"vagen/env/remote/internal/wire"
)

// said is a decoded response.
type said struct {
	status int
	data   map[string]any // of JSON and of multipart bodies
	images int
	detail string
	text   string
}

// ask calls a server's handler directly. A body that is a text is JSON, which is sent as the protocol of the path does.
func ask(t testing.TB, s *Server, method, path string, body any, change ...func(*http.Request)) said {
	t.Helper()
	return askContext(t, context.Background(), s, method, path, body, change...)
}

func askContext(
	t testing.TB, ctx context.Context, s *Server, method, path string, body any, change ...func(*http.Request),
) said {
	t.Helper()
	var raw []byte
	kind := ""
	switch body := body.(type) {
	case []byte:
		raw = body
	case string:
		raw, kind = []byte(body), kindJSON
		if path == "/connect" || path == "/call" {
			b := wire.NewBoundary()
			raw, kind = wire.Encode(b, raw, nil, ""), wire.ContentType("multipart/form-data", b)
		}
	}
	r := httptest.NewRequestWithContext(ctx, method, path, bytes.NewReader(raw))
	r.Host = "localhost"
	r.Header.Set("Content-Type", kind)
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	aborted := func() (aborted bool) {
		defer func() { aborted = recover() == http.ErrAbortHandler }()
		s.ServeHTTP(w, r)
		return false
	}()
	if aborted {
		return said{}
	}
	a := said{status: w.Code, text: w.Body.String()}
	if m, err := wire.Decode(w.Header().Get("Content-Type"), w.Body.Bytes(), 100); err == nil {
		a.data, a.images = m.Data, len(m.Images)
		return a
	}
	if v, err := pyjson.Parse(w.Body.Bytes()); err == nil {
		a.data, _ = v.(map[string]any)
	}
	a.detail, _ = a.data["detail"].(string)
	return a
}

func get(t testing.TB, s *Server, path string) said {
	t.Helper()
	return ask(t, s, http.MethodGet, path, nil)
}

func post(t testing.TB, s *Server, path, body string) said {
	t.Helper()
	return ask(t, s, http.MethodPost, path, body)
}

// createA creates an environment with the id "a" for the older protocol.
func createA(t testing.TB, s *Server) {
	t.Helper()
	a := post(t, s, "/environments", orders("stub", "a"))
	require.Equal(t, http.StatusOK, a.status, a.text)
}

// refused checks the status of an answer and that its detail contains a text.
func (a said) refused(t testing.TB, status int, detail string) {
	t.Helper()
	assert.Equal(t, status, a.status)
	assert.Contains(t, a.detail, detail)
}

// orders is a request for environments of a kind with these ids.
func orders(kind string, ids ...string) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = fmt.Sprintf(`%q: {"env_name": %q, "env_config": {}}`, id, kind)
	}
	return `{"ids2configs": {` + strings.Join(texts, ", ") + "}}"
}

// open opens a session with the JSON of a configuration and returns its id.
func open(t testing.TB, s *Server, config string) string {
	t.Helper()
	a := post(t, s, "/connect", `{"env_config": `+config+`, "seed": 1}`)
	require.Equal(t, http.StatusOK, a.status, a.text)
	return a.data["session_id"].(string)
}

// step plays a turn of a session.
func step(t testing.TB, s *Server, id, text string) said {
	t.Helper()
	return call(t, s, id, "step", fmt.Sprintf(`{"action_str": %q}`, text))
}

// call calls a method of a session with the JSON of its parameters.
func call(t testing.TB, s *Server, id, method, params string) said {
	t.Helper()
	return post(t, s, "/call", fmt.Sprintf(`{"session_id": %q, "method": %q, "params": %s}`, id, method, params))
}

// checkGoroutines fails a test that leaks goroutines. It must be called before the code
// under test starts any.
func checkGoroutines(t testing.TB) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		// Cancelled goroutines need a moment to end.
		for range 500 {
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
	})
}
