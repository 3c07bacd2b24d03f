package openenv

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/internal/golden"
)

// recorded is a message of a recording.
type recorded struct {
	New     bool            `json:"new_connection"`
	Dir     string          `json:"dir"`
	Raw     string          `json:"raw"`
	Frame   json.RawMessage `json:"frame"`
	WS      json.RawMessage `json:"ws"`
	Answer  json.RawMessage `json:"answer"`
	Unknown json.RawMessage `json:"attach unknown"`
	Closed  []any           `json:"closed"`
	Request [3]any          `json:"request"`
	Status  int             `json:"status"`
	Body    json.RawMessage `json:"body"`
}

func recording(t *testing.T, name string) []recorded {
	t.Helper()
	var file struct {
		Messages []recorded `json:"messages"`
	}
	golden.Read(t, "openenv/"+name, &file)
	require.NotEmpty(t, file.Messages)
	return file.Messages
}

// essence is what must be equal in the answers of two servers whose environments differ.
type essence struct {
	Type string
	Data struct {
		Code   string
		Errors []struct {
			Type  string
			Loc   []any
			Input any
		}
		Error struct{ Code int }
	}
}

func essenceOf(t *testing.T, raw string) (e essence) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(raw), &e), raw)
	return e
}

// TestServerAnswersRawFramesAsTheOriginal: types, codes of errors and the fields that they name.
func TestServerAnswersRawFramesAsTheOriginal(t *testing.T) {
	const name = "02_raw_frames.json"
	ours := func(s string) string { return strings.ReplaceAll(s, "move", "response") }
	url := serve(t, newGrid, nil)
	var c *websocket.Conn
	var sent string
	cases := 0
	reset := false // a step before the first reset is an error here
	for _, m := range recording(t, name) {
		switch {
		case m.New:
			c, reset, sent = dial(t, url), false, ""
		case m.Dir == "client":
			sent = ours(m.Raw)
			reset = reset || strings.Contains(sent, `"reset"`)
			form := websocket.MessageText
			if strings.HasPrefix(sent, "binary:") {
				form = websocket.MessageBinary
			}
			require.NoError(t, c.Write(t.Context(), form, []byte(strings.Replace(sent, `"n":"2",`, "", 1))))
			if sent == "[]" { // closes the session here, as in the original with nothing sent after it
				_, raw, err := c.Read(t.Context())
				require.NoError(t, err)
				require.Equal(t, sessionError, essenceOf(t, string(raw)).Data.Code)
				c, cases, sent = dial(t, url), cases+1, ""
			}
		case m.Dir == "server" && sent != "":
			_, raw, err := c.Read(t.Context())
			require.NoError(t, err, sent)
			cases++
			if !reset && strings.Contains(sent, `"step"`) {
				require.Equal(t, executionError, essenceOf(t, string(raw)).Data.Code)
				continue
			}
			require.Equal(t, essenceOf(t, ours(m.Raw)), essenceOf(t, string(raw)), sent)
		case m.Closed != nil:
			_, _, err := c.Read(t.Context())
			require.Equal(t, websocket.StatusNormalClosure, websocket.CloseStatus(err), sent)
			cases++
		}
	}
	require.NotZero(t, cases)
	t.Logf("golden: openenv/%s: %d cases", name, cases)
}

// TestServerAnswersHTTPAsTheOriginal: the status, and the fields that errors name.
func TestServerAnswersHTTPAsTheOriginal(t *testing.T) {
	const name = "05_http.json"
	type refused struct {
		Detail any
		Error  struct{ Code int }
	}
	url, cases := serve(t, newGrid, nil), 0
	for _, m := range recording(t, name) {
		path, _ := m.Request[1].(string)
		swap := strings.NewReplacer("grid", "GridEnv") // its name is ours, and the other way round
		path = swap.Replace(path)
		body, _ := m.Request[2].(string)
		if m.Request[2] != nil && body == "" {
			raw, err := json.Marshal(m.Request[2])
			require.NoError(t, err)
			body = strings.ReplaceAll(string(raw), "move", "response")
		}
		if strings.Contains(body, "openenv/session") {
			continue // sessions for tools; there are none
		}
		q, err := http.NewRequest(m.Request[0].(string), url+path, strings.NewReader(body))
		require.NoError(t, err)
		a, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		raw, err := io.ReadAll(a.Body)
		require.NoError(t, errors.Join(err, a.Body.Close()))
		require.Equal(t, m.Status, a.StatusCode, "%v: %s", m.Request, raw)
		cases++
		var want, got refused
		if path == "/list_environments" || body == "{bad" {
			continue
		}
		require.NoError(t, json.Unmarshal([]byte(swap.Replace(string(m.Body))), &want))
		require.NoError(t, json.Unmarshal(raw, &got))
		require.Equal(t, want.Error, got.Error)
		if why, ok := want.Detail.(string); ok {
			require.Equal(t, why, got.Detail)
		}
		list, _ := want.Detail.([]any)
		ours, _ := got.Detail.([]any)
		require.Len(t, ours, len(list), "%v: %s", m.Request, raw)
		for i := range list {
			require.Equal(t, list[i].(map[string]any)["type"], ours[i].(map[string]any)["type"])
		}
	}
	t.Logf("golden: openenv/%s: %d cases", name, cases)
}

// adapted returns a client without a connection for a schema.
func adapted(t *testing.T, schema json.RawMessage, config map[string]any) *Client {
	t.Helper()
	c := client(t, "http://127.0.0.1:1", config).(*Client)
	about := new(served)
	require.NoError(t, json.Unmarshal(schema, &about.schema))
	require.NoError(t, c.adapt(about))
	return c
}

func schemaOfRecording(t *testing.T) json.RawMessage {
	t.Helper()
	for _, m := range recording(t, "05_http.json") {
		if m.Request[1] == "/schema" {
			return m.Body
		}
	}
	t.Fatal("no schema")
	return nil
}

// TestClientReadsRecordedAnswers: texts, pictures and errors of the original's server.
func TestClientReadsRecordedAnswers(t *testing.T) {
	const name = "01_own_client.json"
	c := adapted(t, schemaOfRecording(t), map[string]any{
		"images": []any{"screenshot"}, "null_reward": 0.0, "text": "{text} {metadata.k} {grid[0][0]}",
	})
	cases := 0
	for _, m := range recording(t, name) {
		var f struct {
			Type string
			Data struct {
				Code        string
				Observation struct{ Text string }
			}
		}
		if m.Dir != "server" || strings.Contains(string(m.Frame), `"state"`) {
			continue
		}
		require.NoError(t, json.Unmarshal(m.Frame, &f))
		a, err := decode(websocket.MessageText, m.Frame)
		if f.Type == "error" {
			require.ErrorContains(t, err, f.Data.Code)
		} else {
			require.NoError(t, err)
			out, err := c.outcome(a)
			require.NoError(t, err)
			require.Contains(t, out.Observation.Text, f.Data.Observation.Text+" v ")
			require.Equal(t, 16, out.Observation.Images[0].Bounds().Dx())
			require.False(t, out.Done)
		}
		cases++
	}
	require.NotZero(t, cases)
	t.Logf("golden: openenv/%s: %d cases", name, cases)
}

// TestToolsAreActions: a server with MCP tools is played by the mapping alone.
func TestToolsAreActions(t *testing.T) {
	const name = "08_mcp.json"
	schema := `{"action":{"properties":{"type":{"const":"call_tool"},"tool_name":{"type":"string"},
		"arguments":{"type":"object"}},"required":["tool_name"]},"observation":{}}`
	c := adapted(t, json.RawMessage(schema), map[string]any{
		"images": []any{"result.content[].data"}, "text": "{result.content[].text}{error.message}", "null_reward": 0,
		"action_format": "json", "action_fixed": map[string]any{"type": "call_tool"},
	})
	cases, images := 0, 0
	for _, m := range recording(t, name) {
		var sent struct{ Data map[string]any }
		if json.Unmarshal(m.WS, &sent) != nil || sent.Data["type"] != "call_tool" {
			continue
		}
		given, err := json.Marshal(map[string]any{"tool_name": sent.Data["tool_name"], "arguments": sent.Data["arguments"]})
		require.NoError(t, err)
		action, err := c.mapping.action("<answer>" + string(given) + "</answer>")
		require.NoError(t, err)
		require.Equal(t, sent.Data, action)
		a, err := decode(websocket.MessageText, m.Answer)
		require.NoError(t, err)
		out, err := c.outcome(a)
		require.NoError(t, err, "also of a tool without text")
		require.NotEmpty(t, out.Observation.Text)
		images += len(out.Observation.Images)
		cases++
	}
	require.NotZero(t, cases)
	require.NotZero(t, images)
	t.Logf("golden: openenv/%s: %d cases", name, cases)
}

// TestSessionsAreNotAttached: there are none that a client could have made before.
func TestSessionsAreNotAttached(t *testing.T) {
	c, _, err := websocket.Dial(t.Context(), serve(t, newGrid, nil)+"/ws?session_id=nope", nil)
	require.NoError(t, err)
	defer c.CloseNow()
	for _, m := range recording(t, "08_mcp.json") {
		if m.Unknown != nil {
			_, got, err := c.Read(t.Context())
			require.NoError(t, err)
			require.JSONEq(t, string(m.Unknown), string(got))
			t.Log("golden: openenv/08_mcp.json: 1 cases")
		}
	}
}

// TestDescriptionsHaveNoImages: a server may show how its observations look.
func TestDescriptionsHaveNoImages(t *testing.T) {
	c := adapted(t, json.RawMessage(`{"action":{"properties":{"a":{"description":"what <image> shows"}}}}`), nil)
	c.about.prompt = "You see <ima<image>ge>."
	o := envtest.System(t, c)
	require.Contains(t, o.Text, "You see .")
	require.NotContains(t, o.Text, env.ImageMark)
}

// TestObservationsWithoutTextAreShown: the fields that there are, where the client chose the field text.
func TestObservationsWithoutTextAreShown(t *testing.T) {
	c := adapted(t, json.RawMessage(echoSchema), nil)
	o, err := c.observe(&answered{Observation: map[string]any{"text": nil, "score": 3.0}})
	require.NoError(t, err)
	require.Equal(t, `{"score":3,"text":null}`, o.Text)
}
