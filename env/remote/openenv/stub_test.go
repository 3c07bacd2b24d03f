package openenv

import (
	"context"
	"errors"
	"fmt"
	"image"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/remote"
	"vagen/reward"
)

// grid is the environment of the recordings, with moves as responses.
type grid struct {
	at  image.Point
	set bool
}

func newGrid(map[string]any) (env.Env, error) { return new(grid), nil }

func (g *grid) observe() env.Observation {
	img := image.NewRGBA(image.Rect(0, 0, 16, 16))
	for i := range img.Pix {
		img.Pix[i] = 0xff
	}
	return env.Observation{Text: fmt.Sprintf("at %d,%d\n%s", g.at.X, g.at.Y, env.ImageMark), Images: []image.Image{img}}
}

func (g *grid) System(ctx context.Context) (env.Observation, error) {
	return env.Observation{Text: "Move right."}, ctx.Err()
}

func (g *grid) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	g.at, g.set = image.Pt(int(seed%4), 0), true
	return g.observe(), ctx.Err()
}

func (g *grid) Step(ctx context.Context, response string) (env.Outcome, error) {
	switch {
	case !g.set:
		return env.Outcome{}, env.ErrNotReset
	case response == "boom":
		return env.Outcome{}, errors.New("boom: environment failed")
	case response == "panic":
		panic("a panic")
	case response == "hang":
		<-ctx.Done()
		return env.Outcome{}, ctx.Err()
	case response == "late": // it does not notice the end of its context
		time.Sleep(2 * soon)
	case response == "right":
		g.at.X = min(3, g.at.X+1)
	}
	out := env.Outcome{Observation: g.observe(), Done: g.at.X == 3, Success: g.at.X == 3, Turn: env.Metrics{"moved": 1}}
	if out.Done {
		out.Reward = reward.Parts{{Name: "goal", Value: 1}}
	}
	return out, nil
}

func (g *grid) Close() error { return nil }

// serve starts a server of the grid and returns its address.
func serve(t testing.TB, f env.Factory, change func(*remote.ServerOptions)) string {
	t.Helper()
	o := remote.DefaultServerOptions()
	if change != nil {
		change(&o)
	}
	s, err := NewServer(Hosted{Name: "grid", About: "a grid", Make: f}, o)
	require.NoError(t, err)
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		require.NoError(t, s.Close(context.Background()))
		require.Zero(t, s.Sessions())
		h.Close()
	})
	return h.URL
}

func dial(t testing.TB, url string) *websocket.Conn {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), url+"/ws", nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

// ask sends a frame and returns the answer.
func ask(t testing.TB, c *websocket.Conn, raw string) string {
	t.Helper()
	require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte(raw)))
	_, answer, err := c.Read(t.Context())
	require.NoError(t, err, raw)
	return string(answer)
}

// client returns a client with options.
func client(t testing.TB, url string, more map[string]any) env.Env {
	t.Helper()
	config := map[string]any{"base_urls": url}
	for name, v := range more {
		config[name] = v
	}
	e, err := Factory()(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

const echoSchema = `{"action":{"properties":{"move":{"type":"string","enum":["left","right"]},
"n":{"type":"integer","minimum":1}},"required":["move"],"additionalProperties":false},
"observation":{"properties":{"text":{"type":"string"},"images":{"type":"array"}}}}`

// scripted starts a server that sends the frames of answers, one per request; "close" closes, and one that begins
// with "twice " is sent twice.
func scripted(t testing.TB, answers func(n int, request string) string) string {
	t.Helper()
	mux := http.NewServeMux()
	for path, text := range map[string]string{"/schema": echoSchema, "/metadata": `{"description":"a script"}`} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	}
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for n := 0; ; n++ {
			_, raw, err := c.Read(r.Context())
			if err != nil {
				return
			}
			answer := answers(n, string(raw))
			if answer == "close" {
				_ = c.Close(websocket.StatusNormalClosure, "")
				return
			}
			answer, twice := strings.CutPrefix(answer, "twice ")
			for range map[bool]int{false: 1, true: 2}[twice] {
				if err := c.Write(r.Context(), websocket.MessageText, []byte(answer)); err != nil {
					return
				}
			}
		}
	})
	h := httptest.NewServer(mux)
	t.Cleanup(h.Close)
	return h.URL
}

func observation(text string) string {
	return fmt.Sprintf(`{"type":"observation","data":{"observation":{"text":%q},"reward":0.5,"done":false}}`, text)
}

func isReset(request string) bool { return strings.Contains(request, `"type":"reset"`) }

const soon = 200 * time.Millisecond
