package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/rollout"
)

// sendTo sends a body to a path below an episode's address.
func sendTo(w http.ResponseWriter, e *Episode, path, body string) {
	r := httptest.NewRequest("POST", "http://127.0.0.1/episodes/"+e.id+path, strings.NewReader(body))
	e.gate.server.Handler.ServeHTTP(w, r)
}

// cutting is the connection of a client that leaves after some writes.
type cutting struct {
	*httptest.ResponseRecorder
	left int // writes
}

func (c *cutting) Write(b []byte) (int, error) {
	if c.left--; c.left < 0 {
		return 0, errors.New("the client is gone")
	}
	return c.ResponseRecorder.Write(b)
}

// TestOddRequestsCorruptNoRow: they are answered, or refused in the form of the protocol that is spoken.
func TestOddRequestsCorruptNoRow(t *testing.T) {
	const chat, responses, messages = "/v1/chat/completions", "/v1/responses", "/v1/messages"
	picture := func(url string) string {
		return `{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "` + url + `"}]}]}`
	}
	agent := func(_ context.Context, e *Episode) (*Score, error) {
		for _, c := range []struct {
			path, body string
			status     int
			want       string
		}{
			{chat, `{"messages": [{"role": "user", "content": "` + strings.Repeat("long ", 400_000) + `"}]}`, 400,
				"context_length_exceeded"},
			{chat, picture("data:text/plain;base64,aGVsbG8="), 400, "must be PNG, JPEG or GIF"},
			{chat, picture("data:text/plain;base64,aGVsbG8="), 400, `"param":"messages[0].content[0].image_url"`},
			{chat, picture("data:image/png,plain"), 400, "messages[0].content[0].image_url: "},
			{chat, `{"messages": [{"role": "tool", "tool_call_id": "none", "content": "12"}], "unknown": [{}]}`, 200, `"four"`},
			{chat, `{"messages": [{"role": "system", "content": "alone"}]}`, 400, "must be the user's"},
			{responses, `{"input": [{"role": "system", "content": "alone"}]}`, 400, `"param":"input"`},
			{responses, `{"input": []}`, 400, "input: empty"},
			{responses, `{"model": "policy"}`, 400, "input: missing"},
			{responses, `{"instructions": "x", "input": [{"role": "user", "content": "y"}, {"type": "item_reference", "id": "z"}]}`,
				400, `"param":"input[1].id"`},
			{responses, `{"input": "x", "previous_response_id": "resp_none"}`, 400, `"param":"previous_response_id"`},
			{responses, `{"input": "x", "conversation": "conv_1"}`, 400, "conversation: not allowed"},
			{messages, `{"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]}`, 200, `"four"`},
			{messages, `{"messages": []}`, 400, `"type":"invalid_request_error"},"type":"error"`},
			{messages, `{"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}`, 200, `"four"`},
			{"/reward", `{"reward": "1"}`, 400, `"message":"reward: string is not allowed, must be a number"`},
			{"/reward", `{"reward": NaN}`, 400, "not valid JSON"},
			{"/reward", `{"reward": 1} {"reward": 2}`, 400, "text after the object"},
			{"/reward", `{"reward": 1e39}`, 400, "fit a float32"},
			{"/reward", `{"rewrad": 1}`, 400, `the field \"rewrad\" is unknown`},
			{"/reward", `{"reward": 1, "answer": "chatcmpl-none"}`, 400, "is no answer of this episode"},
		} {
			w := httptest.NewRecorder()
			sendTo(w, e, c.path, c.body)
			require.Equal(t, c.status, w.Code, "%s %.200s: %s", c.path, c.body, w.Body)
			require.Contains(t, w.Body.String(), c.want, "%s %.200s", c.path, c.body)
			if c.status != 200 {
				require.Equal(t, c.path != messages, strings.Contains(w.Body.String(), `"param":`), w.Body)
			}
		}
		w := httptest.NewRecorder()
		part := iotest.ErrReader(io.ErrUnexpectedEOF) // of a client that is gone
		e.gate.server.Handler.ServeHTTP(w, httptest.NewRequest("POST", "http://127.0.0.1/episodes/"+e.id+chat, part))
		require.Equal(t, 408, w.Code)
		twice := `{"messages": [{"role": "user", "content": "twice"}]}`
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { sendTo(httptest.NewRecorder(), e, chat, twice) })
		}
		both.Wait()
		const stream = `{"stream": true, "messages": [{"role": "user", "content": "twice"},
			{"role": "assistant", "content": "four"}, {"role": "user", "content": "go on"}]}`
		sendTo(&cutting{httptest.NewRecorder(), 2}, e, chat, stream)
		sendTo(httptest.NewRecorder(), e, chat, stream)
		w = httptest.NewRecorder()
		sendTo(w, e, "/finish", `{"reward": 1}`)
		require.Equal(t, 200, w.Code)
		w = httptest.NewRecorder()
		sendTo(w, e, chat, stream)
		require.Contains(t, []int{404, 409}, w.Code, "it is over, and may be closed")
		return nil, nil
	}
	g, err := New(Settings{Agent: agent})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	tr := play(t, g, &scripted{next: func(policy.Prompt) string { return "four" }, most: 100_000}, nil)
	require.NoError(t, tr.Err)
	checkRows(t, tr)
	require.Equal(t, rollout.EndDone, tr.End)
	require.Equal(t, 1.0, tr.Return())
	require.Len(t, tr.Turns, 5, "the stream came once, and one of two equal requests was continued")
	for name, n := range map[string]float64{"bad_requests": 5, "retries": 1, "lost_answers": 1, "discarded": 1} {
		require.Equal(t, n, tr.Metrics["agent/"+name], name)
	}
}

// TestInstructionsAreReplacedAlone: with previous_response_id, those of a request stand for the earlier ones, and
// for nothing that was sent beside them. So do tools, with or without instructions.
func TestInstructionsAreReplacedAlone(t *testing.T) {
	const tools = `"tools": [{"type": "function", "name": "f"}], `
	g, err := New(Settings{Agent: func(_ context.Context, e *Episode) (*Score, error) {
		_, _, a := post(t, e.URL+"/v1/responses", "", `{"instructions": "Be brief.", `+tools+`"input": [
			{"role": "developer", "content": "Use metres."}, {"role": "user", "content": "x"}]}`)
		for _, how := range []string{"brief", "long"} {
			_, _, a = post(t, e.URL+"/v1/responses", "", `{"instructions": "Be `+how+`.", `+tools+`"input": "y",
				"previous_response_id": "`+a["id"].(string)+`"}`)
			require.Equal(t, "completed", a["status"], a)
		}
		follow := func(input string) (int, map[string]any) {
			code, _, a := post(t, e.URL+"/v1/responses", "", `{"tools": [{"type": "function", "name": "g"}],
				"input": `+input+`, "previous_response_id": "`+a["id"].(string)+`"}`)
			return code, a
		}
		code, _ := follow(`"z"`)
		require.Equal(t, 200, code)
		code, bad := follow(`[{"type": "item_reference", "id": "msg_none"}]`)
		require.Equal(t, 400, code, "it is resolved, too: %v", bad)
		return &Score{Reward: 1}, nil
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	tr := play(t, g, &scripted{next: func(policy.Prompt) string { return "four" }}, nil)
	require.NoError(t, tr.Err)
	checkRows(t, tr)
	require.Len(t, tr.Turns, 4)
	require.Len(t, tr.Rows, 3)
	first, second := text(tr.Rows[0].Tokens()), text(tr.Rows[1].Tokens())
	require.True(t, strings.HasPrefix(first, "[system]Be brief.\n\nUse metres.\n\n# Tools"), first)
	require.True(t, strings.HasPrefix(second, "[system]Be long.\n\nUse metres.\n\n# Tools"), second)
	third := text(tr.Rows[2].Tokens())
	require.True(t, strings.HasPrefix(third, "[system]Be long.\n\nUse metres.\n\n# Tools"), third)
	require.Contains(t, third, `"name":"g"`)
	require.NotContains(t, third, `"name":"f"`)
}

// TestAFollowUpMayCallEarlierTools: with previous_response_id the policy is shown the tools of the earlier request,
// so that its calls are read, unless the client wants none.
func TestAFollowUpMayCallEarlierTools(t *testing.T) {
	g, err := New(Settings{Agent: func(_ context.Context, e *Episode) (*Score, error) {
		ask := func(fields string) (id, kind string) {
			code, _, a := post(t, e.URL+"/v1/responses", "", `{`+fields+`"input": "x"}`)
			require.Equal(t, 200, code, a)
			return a["id"].(string), a["output"].([]any)[0].(map[string]any)["type"].(string)
		}
		id, kind := ask(`"tools": [{"type": "function", "name": "f"}], `)
		require.Equal(t, "function_call", kind)
		_, kind = ask(`"previous_response_id": "` + id + `", `)
		require.Equal(t, "function_call", kind)
		_, kind = ask(`"tool_choice": "none", "previous_response_id": "` + id + `", `)
		require.Equal(t, "message", kind)
		_, kind = ask("")
		require.Equal(t, "message", kind)
		return &Score{Reward: 1}, nil
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	call := func(policy.Prompt) string { return "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>" }
	tr := play(t, g, &scripted{next: call}, nil)
	require.NoError(t, tr.Err)
	checkRows(t, tr)
}

// TestTasksOfClientsAreThoseOfConfigurations: numbers have the same types, and large ones are not rounded.
func TestTasksOfClientsAreThoseOfConfigurations(t *testing.T) {
	for text, want := range map[string]map[string]any{
		`{"id": 9007199254740993, "x": 0.5}`: {"id": uint64(9007199254740993), "x": 0.5}, `"sum"`: {"name": "sum"}, "null": nil, "": nil,
	} {
		q, e := wish{Task: json.RawMessage(text)}, new(Episode)
		require.Nil(t, q.readTask(), text)
		require.True(t, q.fits(&Episode{Task: want}), text)
		q.set(e)
		require.Equal(t, want, e.Task, text)
	}
	for text, want := range map[string]string{`[]`: "task: array is not allowed, must be an object",
		`{"x": 18446744073709551616}`: "task: not valid JSON: strconv.ParseInt: "} {
		bad := (&wish{Task: json.RawMessage(text)}).readTask()
		require.NotNil(t, bad, text)
		require.ErrorContains(t, bad, want)
	}
}

// TestCallsBesideAReferenceAreThoseOfTheAnswer: the AI SDK of Vercel refers to the text of an answer and sends its
// calls, so that they came twice. Calls of another answer are not part of it.
func TestCallsBesideAReferenceAreThoseOfTheAnswer(t *testing.T) {
	g, err := New(Settings{Agent: func(_ context.Context, e *Episode) (*Score, error) {
		ask := func(history string) map[string]any {
			code, _, a := post(t, e.URL+"/v1/responses", "", `{"tools": [{"type": "function", "name": "f"}], "input": [
				{"role": "user", "content": "x"}`+history+`]}`)
			require.Equal(t, 200, code, a)
			return a
		}
		output := ask("")["output"].([]any)
		id, call := output[0].(object)["id"].(string), output[1].(object)["call_id"].(string)
		reference := `, {"type": "item_reference", "id": "` + id + `"}`
		ask(reference + `, {"type": "function_call", "call_id": "` + call + `", "name": "f", "arguments": "{\"a\": 1}"},
			{"type": "function_call_output", "call_id": "` + call + `", "output": "12"}`)
		ask(reference + `, {"type": "function_call", "call_id": "other", "name": "g", "arguments": "{}"},
			{"type": "function_call_output", "call_id": "other", "output": "13"}`)
		return &Score{Reward: 1}, nil
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	call := func(policy.Prompt) string {
		return "Look.<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n</tool_call>"
	}
	tr := play(t, g, &scripted{next: call}, nil)
	require.NoError(t, tr.Err)
	checkRows(t, tr)
	require.Equal(t, []int{0, 0, 1}, []int{tr.Turns[0].Row, tr.Turns[1].Row, tr.Turns[2].Row})
}
