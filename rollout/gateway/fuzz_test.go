package gateway

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/rollout/gateway/internal/dialect"
)

// FuzzAnswer: whatever a policy writes is an answer in every protocol, and a client that sends it back as it
// was continues its row.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{"", "four", "<think>\nplan\n</think>\n\n a <image> b ", "<think>no end",
		"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1.0}}\n</tool_call><tool_call>{\"name\": \"g\"",
		"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": }}</tool_call></think>", "</s> \u2028 \U0001f642"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		a := newAnswer("e-1", text, []string{"</s>"}, "tools")
		for _, p := range []dialect.Protocol{dialect.Chat, dialect.Responses, dialect.Messages} {
			for _, a.Stream = range []bool{true, false} {
				parts, _ := p.Answer(a)
				require.NotEmpty(t, parts)
				require.True(t, a.Stream || json.Valid(parts[0]), "%s", p)
			}
		}
		var whole struct {
			Choices []struct{ Message json.RawMessage }
		}
		parts, _ := dialect.Chat.Answer(a)
		require.NoError(t, json.Unmarshal(parts[0], &whole))
		body := `{"messages": [{"role": "user", "content": "x"}, ` + string(whole.Choices[0].Message) +
			`, {"role": "user", "content": "y"}]}`
		q, err := dialect.Chat.Decode([]byte(body))
		require.Nil(t, err)
		root, c := new(call), &call{answer: a}
		place{parent: root, delta: []dialect.Message{{Role: dialect.User, Text: "x"}}}.add(c)
		at := root.find(q.Messages)
		require.Same(t, c, at.parent)
		require.Len(t, at.delta, 1)
	})
}

// FuzzPayments: the small bodies are understood, or refused with a reason.
func FuzzPayments(f *testing.F) {
	for _, body := range []string{"", "{}", `{"task": {"a": 1}, "group": 1, "seed": -1}`, `{"task": []}`,
		`{"reward": 1e400}`, `{"reward": 1, "success": null, "answer": "chatcmpl-x"}`, `{"reward": "1"}`, "[", "null"} {
		f.Add(body)
	}
	g, err := New(Settings{Open: true})
	require.NoError(f, err)
	f.Cleanup(func() { _ = g.Close() })
	f.Fuzz(func(t *testing.T, body string) {
		e, err := g.Env(map[string]any{"wait": true})
		require.NoError(t, err)
		ep := e.(player).Episode
		require.NoError(t, g.add(ep))
		defer g.remove(ep)
		for _, path := range []string{"/episodes", "/episodes/" + ep.ID + "/reward", "/episodes/" + ep.ID + "/finish"} {
			w := httptest.NewRecorder()
			g.server.Handler.ServeHTTP(w, httptest.NewRequest("POST", "http://127.0.0.1"+path, strings.NewReader(body)))
			require.Contains(t, []int{200, 201, 400, 409}, w.Code, "%s: %s", path, w.Body)
			require.True(t, json.Valid(w.Body.Bytes()))
		}
	})
}
