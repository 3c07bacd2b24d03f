package openenv

import (
	"encoding/json"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

func FuzzRequest(f *testing.F) {
	for _, raw := range []string{`{"type":"reset","data":{"seed":"7"}}`, `[]`,
		`{"type":"step","data":{"response":"a","metadata":{}}}`, `{"type":"mcp","data":{}}`,
		`{"type":5}`, `null`, ` {"type" : "step","data": {"response":"\u00e4\ud800"} }`,
		`{"type":"step","data":{"response":"a"}}}`, `{"type":"step","data":{"response":null}}`,
		"{\"type\":\"step\",\"data\":{\"response\":\"\xff\"}}"} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, bad := parse(raw)
		if response, ok := parseStep(raw); ok {
			m, bad = parseAny(raw)
			require.Nil(t, bad)
			require.Equal(t, request{kind: "step", data: m.data, response: response}, m)
		}
		_, err := json.Marshal([]any{bad, answerMCP(m.data, nil)})
		require.NoError(t, err)
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(observation("a")), "{text}", "images")
	f.Add([]byte(`{"type":"observation","data":{"observation":{"a":[[1,2],[3,4]]},"reward":true,"done":true}}`), "{}", "a")
	f.Add([]byte(`{"type":"error","data":{"message":"m","code":"c","errors":[{"loc":[1]}]}}`), "{a[0].b[]}", "c")
	f.Fuzz(func(t *testing.T, raw []byte, text, image string) {
		a, err := decode(websocket.MessageText, raw)
		if err != nil {
			require.Less(t, len(err.Error()), 8000)
			return
		}
		c := &Client{o: defaults()}
		c.o.MaxPixels = 1 << 12
		p, err := parsePath(image)
		if err != nil {
			return
		}
		if c.images = []path{p}; text != "" {
			if c.text, err = parseTemplate(text); err != nil {
				return
			}
		}
		_, _ = c.outcome(a)
	})
}

func FuzzAction(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/b"}]}},"required":["a"],
		"$defs":{"b":{"$ref":"#/$defs/b"}}}`), `<answer>{"a":1}</answer>`)
	f.Fuzz(func(t *testing.T, schema []byte, response string) {
		var s map[string]any
		if json.Unmarshal(schema, &s) != nil {
			return
		}
		m, err := newMapping(s, "", "", nil)
		if err != nil {
			return
		}
		_ = m.prompt()
		_, _ = m.action(response)
	})
}
