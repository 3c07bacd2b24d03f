package remote

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/calls"
	"vagen/env/remote/internal/pyjson"
	"vagen/env/remote/internal/wire"
	"vagen/internal/golden"
)

// replay makes the client do what a recorded request did.
func replay(t *testing.T, c *Client, path string, asked map[string]any) (env.Observation, env.Outcome, error) {
	t.Helper()
	if strings.HasPrefix(path, "/connect") {
		if c.send.o.Config, _ = asked["env_config"].(map[string]any); c.send.o.Config == nil {
			c.send.o.Config = map[string]any{}
		}
		c.session, c.calls = "", calls.Guard{Env: "remote"}
		seed, seeded := asked["seed"].(int64)
		if !seeded {
			_, _, err := c.connect(t.Context(), nil)
			return env.Observation{}, env.Outcome{}, err
		}
		o, err := c.Reset(t.Context(), seed)
		return o, env.Outcome{}, err
	}
	c.session, _ = asked["session_id"].(string)
	params, _ := asked["params"].(map[string]any)
	switch method, _ := asked["method"].(string); method {
	case "system_prompt":
		o, err := c.System(t.Context())
		return o, env.Outcome{}, err
	case "reset":
		seed, _ := params["seed"].(int64)
		o, err := c.Reset(t.Context(), seed)
		return o, env.Outcome{}, err
	case "close":
		_, _, err := c.call(t.Context(), method, Info{}, true) // Close hides that the session is gone
		return env.Observation{}, env.Outcome{}, err
	default: // step, or something that no client asks for, to see the answer
		c.ready, c.unclear = true, nil
		text, _ := params["action_str"].(string)
		out, err := c.Step(t.Context(), text)
		return out.Observation, out, err
	}
}

// The client sends the same bytes as the original in the recorded episodes, and reads all
// recorded responses to POST, including those to hand-made requests.
func TestClientSpeaksAsTheOriginalClient(t *testing.T) {
	const folder = "remote"
	tally := golden.Of(t, folder+" (client)")
	rt := &answerWith{}
	c, err := NewClient(patientOptions(rt))
	require.NoError(t, err)
	for _, e := range exchanges(t, folder) {
		if e.method == http.MethodGet {
			continue // the client sends GET only to see that a service answers
		}
		run := tally.Next("%s", e.ID)
		rt.exchange, rt.asked = e, nil
		kind := e.header.Get("Content-Type")
		asked, _ := wire.Decode(kind, e.asked, 100)
		first, out, err := replay(t, c, e.path, asked.Data)
		if strings.HasPrefix(e.Group, "client") {
			run.Equal("request", inOrder(t, kind, rt.asked), inOrder(t, kind, e.asked))
		}
		if e.Status != http.StatusOK {
			checkFailure(run, e, err)
			continue
		}
		require.NoError(t, err, e.ID)
		said, err := wire.Decode(e.reply.Get("Content-Type"), e.answer, 100)
		require.NoError(t, err, e.ID)
		if text, ok := said.Data["obs"].(string); ok {
			run.Equal("text", first.Text, text)
			run.Equal("images", len(first.Images), len(said.Images))
		}
		for i, img := range first.Images {
			room := 1 << 20
			want, err := wire.DecodeImage(said.Images[i], &room)
			require.NoError(t, err)
			run.Equal("pixels", pixelText(img), pixelText(want))
		}
		if pay, ok := wire.Float(said.Data["reward"]); ok {
			run.Equal("reward", out.Reward.Sum(), pay)
			run.Equal("done", out.Done, said.Data["done"].(bool))
			info := said.Data["info"].(map[string]any)
			run.Equal("success", out.Success, info["success"].(bool))
			turn := info["metrics"].(map[string]any)["turn_metrics"].(map[string]any)
			want, _ := wire.Float(turn["action_is_valid"])
			run.Equal("valid", out.Turn["action_is_valid"], want)
		}
		if id, ok := said.Data["session_id"].(string); ok {
			run.Equal("session", c.session, id)
		}
	}
}

// inOrder masks a request and puts the options of its environment in order, which
// in Python is the order in which the caller wrote them.
func inOrder(t *testing.T, kind string, body []byte) string {
	t.Helper()
	m, err := wire.Decode(kind, body, 10)
	require.NoError(t, err)
	text := masked(kind, body)
	if config, ok := m.Data["env_config"]; ok {
		sorted, err := pyjson.Append(nil, config, pyjson.Lite)
		require.NoError(t, err)
		text = regexp.MustCompile(`"env_config": \{.*?\}`).ReplaceAllLiteralString(text, `"env_config": `+string(sorted))
	}
	return text
}

// checkFailure expects the sentinel for the status and the service's words.
func checkFailure(run *golden.Run, e exchange, err error) {
	run.Helper()
	var failure *Error
	require.ErrorAs(run, err, &failure, e.ID)
	run.Equal("status", failure.Status, e.Status)
	run.Equal("detail", `{"detail":"`+failure.Detail+`"}`, string(e.answer))
	want := map[int]error{400: ErrRequest, 401: ErrUnauthorized, 404: ErrSession, 500: ErrRemote, 503: ErrBusy}[e.Status]
	run.Equal("kind", errors.Is(err, want), true)
}
