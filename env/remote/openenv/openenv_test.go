package openenv

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/env/internal/envtest"
	"vagen/env/remote"
	"vagen/internal/testkit"
)

// TestClientPlaysServer: an environment behind the protocol is the environment itself, and keeps
// the contract.
func TestClientPlaysServer(t *testing.T) {
	options := map[string]any{"render_mode": "vision"}
	local, err := frozenlake.FromConfig(options)
	require.NoError(t, err)
	make := func(map[string]any) (env.Env, error) { return frozenlake.FromConfig(options) }
	far := client(t, serve(t, make, nil), nil)
	want := envtest.System(t, local)
	got := envtest.System(t, far)
	require.Equal(t, want.Text, got.Text)
	responses := []string{"<think>a</think><answer>Right</answer>", "<answer>Down", "<image>ü\xff",
		"<think>a</think><answer>Down,Right</answer>"}
	for seed := range int64(4) {
		a := envtest.Reset(t, local, seed)
		b := envtest.Reset(t, far, seed)
		require.Equal(t, a.Text, b.Text)
		for i := range 8 {
			x := envtest.Play(t, local, responses[i%len(responses)])
			y := envtest.Play(t, far, responses[i%len(responses)])
			require.Equal(t, x.Observation.Text, y.Observation.Text)
			require.Equal(t, x.Observation.Images, y.Observation.Images)
			require.Equal(t, x.Reward.Sum(), y.Reward.Sum())
			require.Equal(t, []any{x.Done, x.Success, x.Turn, x.Trajectory}, []any{y.Done, y.Success, y.Turn, y.Trajectory})
			if x.Done {
				_, err = far.Step(t.Context(), "")
				require.ErrorIs(t, err, remote.ErrNotReset)
				break
			}
		}
	}
	report, err := env.Check(t.Context(), Factory(), env.CheckOptions{
		Config: map[string]any{"base_urls": serve(t, make, nil)}, Responses: responses, Turns: 3, Seeds: []int64{1, 2}})
	require.NoError(t, err)
	require.NoError(t, report.Err())
}

// TestErrorsOfTheServerCostOneEpisode: errors, panics, time limits and lost sessions.
func TestErrorsOfTheServerCostOneEpisode(t *testing.T) {
	e := client(t, serve(t, newGrid, func(o *remote.ServerOptions) { o.CallTimeout = soon }), nil)
	for _, response := range []string{"boom", "panic", "hang", "late"} {
		envtest.Reset(t, e, 0)
		_, err := e.Step(t.Context(), response)
		require.ErrorIs(t, err, remote.ErrRemote, response)
		_, err = e.Step(t.Context(), "right")
		require.ErrorIs(t, err, remote.ErrNotReset)
	}
	envtest.Reset(t, e, 0)
}

// TestHostileServersCostOneEpisode: the next episode is played.
func TestHostileServersCostOneEpisode(t *testing.T) {
	bomb := func() string { // a header of 60000×60000 pixels
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))))
		raw := b.Bytes()
		binary.BigEndian.PutUint32(raw[16:], 60000)
		binary.BigEndian.PutUint32(raw[20:], 60000)
		return base64.StdEncoding.EncodeToString(raw)
	}()
	seen := func(observation, rest string) string {
		return `{"type":"observation","data":{"observation":` + observation + rest + `}}`
	}
	const good = `,"reward":1,"done":false`
	for name, c := range map[string]struct {
		answer string
		want   error
	}{
		"closed":       {"close", env.ErrLost},
		"too long":     {strings.Repeat("a", 2<<20), env.ErrLost},
		"deep":         {strings.Repeat("[", 100_000), remote.ErrProtocol},
		"deep inside":  {seen(`{"text":`+strings.Repeat("[", 20_000)+`}`, ""), remote.ErrProtocol},
		"other type":   {`{"type":"nope"}`, remote.ErrProtocol},
		"wrong types":  {seen(`[]`, ""), remote.ErrProtocol},
		"null":         {`null`, remote.ErrProtocol},
		"no text":      {seen(`{}`, good), remote.ErrProtocol},
		"null reward":  {seen(`{"text":""}`, `,"reward":null,"done":false`), remote.ErrProtocol},
		"text reward":  {seen(`{"text":""}`, `,"reward":"1","done":false`), remote.ErrProtocol},
		"done":         {seen(`{"text":""}`, `,"reward":1,"done":1`), remote.ErrProtocol},
		"bomb":         {seen(`{"text":"","images":["`+bomb+`"]}`, good), remote.ErrProtocol},
		"no image":     {seen(`{"text":"","images":[7]}`, good), remote.ErrProtocol},
		"session lost": {`{"type":"error","data":{"message":"gone","code":"SESSION_ERROR"}}`, env.ErrLost},
		"late":         {"late", env.ErrLost},
	} {
		wait, enough := context.WithCancel(t.Context())
		url := scripted(t, func(_ int, request string) string {
			switch {
			case isReset(request):
				return observation("begin")
			case c.answer == "late":
				<-wait.Done()
			}
			return c.answer
		})
		timeout := 60.0
		if name == "late" {
			timeout = soon.Seconds()
		}
		e := client(t, url, map[string]any{"max_response_mb": 1.0, "timeout": timeout})
		_, err := e.Reset(t.Context(), 0)
		require.NoError(t, err, name)
		_, err = e.Step(t.Context(), "<answer>left</answer>")
		require.ErrorIs(t, err, c.want, name)
		require.Less(t, len(err.Error()), 2000, name)
		enough()
		o, err := e.Reset(t.Context(), 0)
		require.NoError(t, err, name)
		require.Equal(t, "begin", o.Text)
	}
}

// TestHostileClientsLoseTheirSession: others are not affected.
func TestHostileClientsLoseTheirSession(t *testing.T) {
	url := serve(t, newGrid, func(o *remote.ServerOptions) { o.Limits.Body = 1 << 16 })
	good := dial(t, url)
	ask(t, good, `{"type":"reset"}`)
	for _, raw := range []string{strings.Repeat("a", 1<<17), `[]`} {
		bad := dial(t, url)
		_ = bad.Write(t.Context(), websocket.MessageText, []byte(raw))
		var err error
		for err == nil {
			_, _, err = bad.Read(t.Context())
		}
		require.NotEqual(t, websocket.StatusCode(-1), websocket.CloseStatus(err), "%q: %v", clip(raw), err)
	}
	bad := dial(t, url)
	require.Contains(t, ask(t, bad, strings.Repeat("[", 60_000)), invalidJSON)
	long := ask(t, bad, `{"type":"step","data":{"response":{"a":"`+strings.Repeat("x", 30_000)+`"}}}`)
	require.Less(t, len(long), 1000, "an error repeats the beginning of a value")
	require.Contains(t, ask(t, good, `{"type":"step","data":{"response":"right"}}`), `"observation"`)
}

// wordy is an environment with a long observation.
type wordy struct{ grid }

func (w *wordy) Reset(context.Context, int64) (env.Observation, error) {
	return env.Observation{Text: strings.Repeat("word ", 4<<20)}, nil
}

// TestSlowReadersLoseTheirSession: a client that does not read its answer holds a session for the write timeout only.
func TestSlowReadersLoseTheirSession(t *testing.T) {
	url := serve(t, func(map[string]any) (env.Env, error) { return new(wordy), nil }, func(o *remote.ServerOptions) {
		o.WriteTimeout, o.MaxSessions = soon, 1
	})
	slow := dial(t, url)
	require.NoError(t, slow.Write(t.Context(), websocket.MessageText, []byte(`{"type":"reset"}`)))
	require.Eventually(t, func() bool {
		c := dial(t, url)
		defer c.CloseNow()
		_ = c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"state"}`)) // it may be closed already
		_, answer, _ := c.Read(t.Context())
		return strings.Contains(string(answer), `"step_count"`)
	}, time.Minute, soon/4, "the place is free again")
}

// TestIdleSessionsEnd: a client that sends nothing loses its session.
func TestIdleSessionsEnd(t *testing.T) {
	c := dial(t, serve(t, newGrid, func(o *remote.ServerOptions) { o.SessionTimeout = soon / 4 }))
	_, _, err := c.Read(t.Context())
	require.Equal(t, websocket.StatusNormalClosure, websocket.CloseStatus(err), "as it says when it is full: %v", err)
}

// TestClientsWaitForCapacity: the answer is that of the original, and a client of this package
// waits until another one leaves.
func TestClientsWaitForCapacity(t *testing.T) {
	url := serve(t, newGrid, func(o *remote.ServerOptions) { o.MaxSessions = 1 })
	first := dial(t, url)
	ask(t, first, `{"type":"reset"}`)
	_, raw, err := dial(t, url).Read(t.Context())
	require.NoError(t, err)
	var want struct {
		Data struct {
			Code string `json:"code"`
		}
	}
	for _, m := range recording(t, "03_capacity.json") {
		if m.Dir == "server" {
			require.JSONEq(t, strings.NewReplacer("2/2", "1/1", `"active_sessions":2`, `"active_sessions":1`,
				`"max_sessions":2`, `"max_sessions":1`).Replace(m.Raw), string(raw))
			want.Data.Code = capacityReached
		}
	}
	require.Equal(t, capacityReached, want.Data.Code)
	t.Log("golden: openenv/03_capacity.json: 1 cases")

	_, err = client(t, url, map[string]any{"capacity_wait": 0.0}).Reset(t.Context(), 0)
	require.ErrorIs(t, err, remote.ErrBusy)
	done := make(chan error, 1)
	e := client(t, url, nil)
	go func() {
		_, err := e.Reset(t.Context(), 0)
		done <- err
	}()
	time.Sleep(soon) // long enough for a refusal
	require.NoError(t, first.Close(websocket.StatusNormalClosure, ""))
	require.NoError(t, <-done)

	ctx, cancel := context.WithCancel(t.Context())
	resets := 0
	url = scripted(t, func(int, string) string {
		if resets++; resets == 2 {
			cancel()
		}
		return `{"type":"error","data":{"code":"CAPACITY_REACHED","message":"one session at most"}}`
	})
	_, err = client(t, url, nil).Reset(ctx, 0)
	testkit.Error(t, err, context.Canceled, "one session at most")
}

// TestFullServersAreLeftForOthers: a server refuses a session only after the connection is open.
func TestFullServersAreLeftForOthers(t *testing.T) {
	full := scripted(t, func(int, string) string {
		return `{"type":"error","data":{"code":"CAPACITY_REACHED","message":"one session at most"}}`
	})
	urls := []any{full, serve(t, newGrid, nil)}
	for range 4 {
		e := client(t, "", map[string]any{"base_urls": urls, "capacity_wait": 5.0})
		envtest.Reset(t, e, 0)
	}
}

// TestKeysAreChecked: without the key there is only /health.
func TestKeysAreChecked(t *testing.T) {
	o := remote.DefaultServerOptions()
	var err error
	o.Other, err = NewServer(Hosted{Name: "grid", Make: newGrid}, o)
	require.NoError(t, err)
	o.APIKey = "secret"
	s, err := remote.NewServer(o)
	require.NoError(t, err)
	h := httpServer(t, s)
	_, err = client(t, h, nil).Reset(t.Context(), 0)
	require.ErrorIs(t, err, remote.ErrUnauthorized)
	require.NotContains(t, err.Error(), "secret")
	e := client(t, h, map[string]any{"token": "secret"})
	envtest.Reset(t, e, 0)
	require.NoError(t, e.Close())
	require.NoError(t, s.Close(t.Context()))
}

// TestResponsesBecomeActions: the formats, and errors that name field, value and what is allowed.
func TestResponsesBecomeActions(t *testing.T) {
	schema := func() map[string]any {
		return testkit.JSON[map[string]any](t, `{"additionalProperties":false,"required":["move"],
			"$defs":{"D":{"enum":["left","right"]},"E":{"$ref":"#/$defs/D"},"F":{"$ref":"#/$defs/G"},"G":{"$ref":"#/$defs/F"}},
			"properties":{"move":{"$ref":"#/$defs/E"},"turn":{"$ref":"#/$defs/F"},
			"n":{"type":"integer","minimum":1,"maximum":9},"to":{"type":"array","items":{"type":"number"}},
			"metadata":{"type":"object"}}}`)
	}
	for _, c := range []struct {
		format, response, fault string
		want                    map[string]any
	}{
		{"", "x<answer> left </answer>", "", map[string]any{"move": "left"}},
		{"", "<answer>up</answer>", `field "move": it must be one of left, right, found up`, nil},
		{"json", `<answer>{"move":"left","turn":3}</answer>`, "", map[string]any{"move": "left", "turn": 3.0}},
		{"", "left", "between <answer> and </answer>", nil},
		{"", "</answer><answer>", "between <answer> and </answer>", nil},
		{"json", `<answer>{"move":"right","n":2,"to":[1,2]}</answer>`, "",
			map[string]any{"move": "right", "n": 2.0, "to": []any{1.0, 2.0}}},
		{"json", `<answer>{"move":"right","n":2.5}</answer>`,
			`field "n": it must be integer at least 1 at most 9, found 2.5`, nil},
		{"json", `<answer>{"move":"right","n":12}</answer>`, "found 12", nil},
		{"json", `<answer>{"move":"right","n":9007199254740993}</answer>`, "found 9007199254740993", nil},
		{"json", `<answer>{"move":"right","to":[9007199254740993]}</answer>`, "",
			map[string]any{"move": "right", "to": []any{json.Number("9007199254740993")}}},
		{"json", `<answer>{"move":"right","to":["a"]}</answer>`, `field "to": element 0: it must be number, found a`, nil},
		{"json", `<answer>{"move":"right","up":1}</answer>`,
			`field "up": it is unknown, there are metadata, move, n, to, turn`, nil},
		{"json", `<answer>{"n":1}</answer>`, `field "move": it is missing, must be one of left, right`, nil},
		{"json", `<answer>[]</answer>`, "JSON object", nil},
	} {
		m, err := newMapping(schema(), c.format, "", nil)
		require.NoError(t, err)
		got, err := m.action(c.response)
		if c.fault != "" {
			require.ErrorContains(t, err, c.fault, c.response)
			continue
		}
		require.NoError(t, err, c.response)
		require.Equal(t, c.want, got)
	}
	for _, c := range []struct {
		format, field, fault string
		fixed                map[string]any
	}{
		{"field", "nope", `action_field: "nope" must be a field of the action: metadata, move, n, to, turn`, nil},
		{"", "", `action_fixed: field "n": it must be integer`, map[string]any{"n": "x"}},
	} {
		_, err := newMapping(schema(), c.format, c.field, c.fixed)
		require.ErrorContains(t, err, c.fault)
	}
	_, err := newMapping(schema(), "", "", map[string]any{"n": uint64(3)}) // as YAML decodes it
	require.NoError(t, err)
}

// TestManifestDeclaresWhatValidationNeeds: the fields that `openenv validate DIR` of 0.10.0 requires.
func TestManifestDeclaresWhatValidationNeeds(t *testing.T) {
	var m struct {
		Name       string
		Validation struct {
			Reward struct {
				Range  [2]float64
				Margin float64 `yaml:"floor_margin"`
			}
			Resources    map[string]float64
			Capabilities struct{ Verifier map[string]string }
			Types        struct{ Tags []string }
		}
	}
	require.NoError(t, yaml.Unmarshal(fmt.Appendf(nil, manifest, "a: b"), &m))
	v := m.Validation
	require.Equal(t, "a: b", m.Name)
	require.Equal(t, []string{"a: b"}, v.Types.Tags)
	require.Equal(t, "reward_channel", v.Capabilities.Verifier["kind"])
	require.Less(t, v.Reward.Range[0], v.Reward.Range[1])
	require.GreaterOrEqual(t, v.Reward.Margin, 0.1)
	for _, name := range []string{"cpu", "memory_mb", "disk_mb", "episode_timeout_s"} {
		require.Positive(t, v.Resources[name], name)
	}
}

// TestOptionsAreChecked: errors name option, value and what is allowed.
func TestOptionsAreChecked(t *testing.T) {
	for want, config := range map[string]map[string]any{
		`timeout: 0, must be`:      {"timeout": 0.0},
		`action_format: "xml"`:     {"action_format": "xml"},
		`images[0]: "a..b"`:        {"images": []any{"a..b"}},
		`text: "a[x]" is not`:      {"text": "{a[x]}"},
		`success: ".s" is not`:     {"success": ".s"},
		`"basic_urls": bad option`: {"basic_urls": "http://a"},
		`base_urls`:                {"base_urls": nil},
	} {
		if _, ok := config["base_urls"]; !ok {
			config["base_urls"] = "http://127.0.0.1:1"
		}
		_, err := FromConfig(config)
		require.ErrorContains(t, err, want)
		require.True(t, errors.Is(err, env.ErrOption) || strings.Contains(err.Error(), "base_urls"))
	}
}

// TestPicturesOfNumbers: nested arrays are images.
func TestPicturesOfNumbers(t *testing.T) {
	row := []any{[]any{1.0, 2.0, 3.0}, []any{4.0, 5.0, 6.0}}
	g := gallery{limit: 9, pixels: 100}
	require.NoError(t, g.add([]any{row, row, row}))
	require.Equal(t, image.Pt(2, 3), g.images[0].Bounds().Size())
	require.Equal(t, 94, g.pixels)
	require.NoError(t, g.add([]any{[]any{0.0, 255.0}}))
	require.Equal(t, image.Pt(2, 1), g.images[1].Bounds().Size())
	for _, bad := range []any{[]any{[]any{0.5, 1.0}}, []any{[]any{256.0}}, []any{[]any{1.0, 2.0}, []any{1.0}}, 7.0, "!"} {
		require.Error(t, g.add(bad))
	}
	g.limit = len(g.images)
	require.ErrorIs(t, g.add([]any{[]any{0.0, 255.0}}), remote.ErrTooLarge)
}

// TestLargeIntegersAreShown as the server sends them.
func TestLargeIntegersAreShown(t *testing.T) {
	a, err := decode(websocket.MessageText, []byte(`{"type":"observation","data":{"observation":{"id":9007199254740993,
		"x":2.0},"reward":1,"done":false}}`))
	require.NoError(t, err)
	o, err := (&Client{o: defaults()}).outcome(a)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":9007199254740993,"x":2}`, o.Observation.Text)
	require.Contains(t, o.Observation.Text, "9007199254740993", "which JSONEq does not compare")
}

// TestLargeIDsComeBack of requests of JSON-RPC.
func TestLargeIDsComeBack(t *testing.T) {
	raw, err := json.Marshal(answerMCP(read([]byte(`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/list"}`))))
	require.NoError(t, err)
	require.Contains(t, string(raw), `"id":9007199254740993`)
}
