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

	"vagen/internal/golden"
	"vagen/policy"
	"vagen/rollout"
)

// sendTo sends a body to a path below an episode's address.
func sendTo(w http.ResponseWriter, e *Episode, path, body string) {
	r := httptest.NewRequest("POST", "http://127.0.0.1/episodes/"+e.ID+path, strings.NewReader(body))
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
	const chat = "/v1/chat/completions"
	type request struct {
		Path, Body string
		Status     int
		Want       string
	}
	requests := append(golden.Table[[]request](t, "odd.yaml"), request{chat,
		`{"messages": [{"role": "user", "content": "` + strings.Repeat("long ", 400_000) + `"}]}`, 400,
		"context_length_exceeded"})
	agent := func(_ context.Context, e *Episode) (*Score, error) {
		for _, c := range requests {
			w := httptest.NewRecorder()
			sendTo(w, e, c.Path, c.Body)
			require.Equal(t, c.Status, w.Code, "%s %.200s: %s", c.Path, c.Body, w.Body)
			require.Contains(t, w.Body.String(), c.Want, "%s %.200s", c.Path, c.Body)
			if c.Status != 200 {
				require.Equal(t, c.Path != "/v1/messages", strings.Contains(w.Body.String(), `"param":`), w.Body)
			}
		}
		w := httptest.NewRecorder()
		part := iotest.ErrReader(io.ErrUnexpectedEOF) // of a client that is gone
		e.gate.server.Handler.ServeHTTP(w, httptest.NewRequest("POST", "http://127.0.0.1/episodes/"+e.ID+chat, part))
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
	g := opened(t, agent)
	tr := play(t, g, &scripted{next: func(policy.Prompt) string { return "four" }, most: 100_000}, nil)
	require.NoError(t, tr.Err)
	checkRows(t, tr)
	require.Equal(t, rollout.EndDone, tr.End)
	require.Equal(t, 1.0, tr.Return())
	require.Len(t, tr.Turns, 5, "the stream came once, and one of two equal requests was continued")
	for name, n := range map[string]float64{"bad_requests": 6, "retries": 1, "lost_answers": 1, "discarded": 1} {
		require.Equal(t, n, tr.Metrics["agent/"+name], name)
	}
}

// TestInstructionsAreReplacedAlone: with previous_response_id, those of a request stand for the earlier ones, and
// for nothing that was sent beside them. So do tools, with or without instructions.
func TestInstructionsAreReplacedAlone(t *testing.T) {
	const tools = `"tools": [{"type": "function", "name": "f"}], `
	g := opened(t, paidFor(func(e *Episode) {
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
	}))
	tr := playedWell(t, g, "four")
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

// TestLostImagesAreCounted: those of tools over chat completions, as two SDKs send them.
func TestLostImagesAreCounted(t *testing.T) {
	g := opened(t, paidFor(func(e *Episode) {
		for _, result := range []string{"[tool output omitted]", "a file of type image/png",
			`[{\"type\":\"text\",\"text\":\"see\"},{\"type\":\"file\",\"mediaType\":\"image/png\",\"data\":{}}]`,
			`[{\"type\":\"image-data\",\"data\":\"\",\"mediaType\":\"image/png\"}]`} {
			code, _, a := post(t, e.URL+"/v1/chat/completions", "", `{"messages": [{"role": "user", "content": "look"},
				{"role": "tool", "tool_call_id": "1", "content": "`+result+`"}]}`)
			require.Equal(t, 200, code, a)
		}
	}))
	require.Equal(t, 3.0, playedWell(t, g, "four").Metrics["agent/lost_images"])
}

// TestCallsAreRecognisedByTheirIDs: Claude Code completes arguments with defaults of its own.
func TestCallsAreRecognisedByTheirIDs(t *testing.T) {
	const call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"
	g := opened(t, paidFor(func(e *Episode) {
		tools, first := `{"tools": [{"name": "f"}], "messages": [`, `{"role": "user", "content": "x"}`
		_, _, a := post(t, e.URL+"/v1/messages", "", tools+first+`]}`)
		id := a["content"].([]any)[0].(object)["id"].(string)
		for _, name := range []string{id, "another"} {
			code, _, bad := post(t, e.URL+"/v1/messages", "", tools+first+`, {"role": "assistant", "content": [{"type": "tool_use",
				"id": "`+name+`", "name": "f", "input": {"a": 1, "all": false}}]}, {"role": "user", "content": [
				{"type": "tool_result", "tool_use_id": "`+name+`", "content": "12"}]}]}`)
			require.Equal(t, 200, code, bad)
		}
	}))
	tr := playedWell(t, g, call)
	require.Len(t, tr.Rows, 2, "the second call continues the first row")
	require.Equal(t, 1.0, tr.Metrics["agent/loose_matches"])
}

// TestAThreadContinuesItsConversation: clients of Anthropic's protocol that ask for a thread send what is new, and the
// id of the answer that it follows. Instructions and tools are those with which the thread was created.
func TestAThreadContinuesItsConversation(t *testing.T) {
	const call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"
	g := opened(t, paidFor(func(e *Episode) {
		thread := `{"system": "Be brief.", "tools": [{"name": "f", "input_schema": {}}], "thread": {"type": "create"}, `
		ask := func(text string) {
			code, _, a := post(t, e.URL+"/v1/messages", "", thread+`"messages": [
				{"role": "user", "content": "`+text+`"}]}`)
			require.Equal(t, 200, code, a)
			require.Equal(t, "tool_use", a["stop_reason"])
			thread = `{"thread": {"type": "continue", "previous_message_id": "` + a["id"].(string) + `"}, `
		}
		ask("x")
		ask("y")
		ask("z")
	}))
	tr := playedWell(t, g, call)
	require.Len(t, tr.Turns, 3)
	require.Len(t, tr.Rows, 1)
	require.Equal(t, 1, strings.Count(text(tr.Rows[0].Tokens()), "Be brief."))
}

// TestAFollowUpMayCallEarlierTools: with previous_response_id the policy is shown the tools of the earlier request,
// so that its calls are read, unless the client wants none.
func TestAFollowUpMayCallEarlierTools(t *testing.T) {
	g := opened(t, paidFor(func(e *Episode) {
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
	}))
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
	g := opened(t, paidFor(func(e *Episode) {
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
	}))
	call := func(policy.Prompt) string {
		return "Look.<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n</tool_call>"
	}
	tr := play(t, g, &scripted{next: call}, nil)
	require.NoError(t, tr.Err)
	checkRows(t, tr)
	require.Equal(t, []int{0, 0, 1}, []int{tr.Turns[0].Row, tr.Turns[1].Row, tr.Turns[2].Row})
}

// TestAMessageThatGrowsBehindAnEmptyAnswerContinues: clients leave the answer out, and add what follows it to the
// user's message before it, with its images.
func TestAMessageThatGrowsBehindAnEmptyAnswerContinues(t *testing.T) {
	const image = `{"type": "image", "source": {"type": "base64", "data":
		"R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"}}`
	answers, asked, read := []string{"<think>\nonly\n</think>\n\n", "fine", "four", "five"}, 0, ""
	g := opened(t, paidFor(func(e *Episode) {
		ask := func(parts, more string) {
			code, _, a := post(t, e.URL+"/v1/messages", "", `{"messages": [{"role": "user", "content": [`+parts+`]},
				{"role": "system", "content": "Be brief."}`+more+`]}`)
			require.Equal(t, 200, code, a)
		}
		const first, second = image + `, {"type": "text", "text": "x"}`, `, {"type": "text", "text": "y"}, ` + image
		ask(first, "")
		ask(first+second, "")
		require.Equal(t, "y\n<image>", read)
		ask(first+second, `, {"role": "assistant", "content": "fine"}, {"role": "user", "content": "z"}`)
		require.Equal(t, "z", read)
		ask(image+`, {"type": "text", "text": "xy"}`, "")
		require.Equal(t, "<image>\nxy\nBe brief.", read)
	}))
	tr := play(t, g, &scripted{next: func(q policy.Prompt) string {
		asked, read = asked+1, q.Messages[len(q.Messages)-1].Text
		return answers[asked-1]
	}}, nil)
	require.NoError(t, tr.Err)
	checkRows(t, tr)
	require.Equal(t, []int{0, 0, 0, 1}, []int{tr.Turns[0].Row, tr.Turns[1].Row, tr.Turns[2].Row, tr.Turns[3].Row})
}
