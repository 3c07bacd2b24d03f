package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
)

type object = map[string]any

// wild is a client of chat completions that does to its messages whatever clients do.
type wild struct {
	t    *testing.T
	g    *Gateway
	e    *Episode
	r    *rand.Rand
	ends [][]object // conversations that can be continued
	sent []string   // bodies
}

// TestWhateverAClientDoesRowsAreWhatWasSampled: log-probs computed again on the rows are the
// recorded ones, every turn is in one row, and no response is in two.
func TestWhateverAClientDoesRowsAreWhatWasSampled(t *testing.T) {
	sum := map[string]float64{}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := &scripted{next: func(policy.Prompt) string { return wildText(r) }}
		if seed%4 == 3 {
			s.most = 900
		}
		var w *wild
		var g *Gateway
		g, err := New(Settings{Agent: func(_ context.Context, e *Episode) (*Score, error) {
			w = &wild{t: t, g: g, e: e, r: r, ends: [][]object{{{"role": "system", "content": "Be brief."}, {"role": "user",
				"content": "go"}}}}
			for range 12 {
				w.act()
			}
			return &Score{Reward: 1}, nil
		}})
		require.NoError(t, err)
		tr := play(t, g, s, nil)
		require.NoError(t, g.Close())
		require.NoError(t, tr.Err, "seed %d", seed)
		checkRows(t, tr)
		require.Equal(t, 1.0, tr.Return())
		require.True(t, tr.Success)
		for name, n := range tr.Metrics {
			sum[name] += n
		}
	}
	for _, name := range []string{"retries", "lost_answers", "refused", "discarded", "rows", "loose_matches",
		"overridden", "overridden/temperature", "overridden/logprobs", "overridden/parallel_tool_calls", "broken_arguments"} {
		require.Positive(t, sum["agent/"+name], name)
	}
}

// wildText is a response with reasoning, text and calls, some of them damaged, or with reasoning alone.
func wildText(r *rand.Rand) string {
	var b strings.Builder
	if r.IntN(8) == 0 {
		return "<think>\nonly a plan\n</think>\n\n"
	}
	if r.IntN(2) == 0 {
		fmt.Fprintf(&b, "<think>\nplan %d\n</think>\n\n", r.IntN(9))
	}
	fmt.Fprintf(&b, " answer %d \u2028 \U0001f642\n", r.IntN(1e6))
	for range r.IntN(3) {
		arguments := []string{`{"b": 2.0,  "a": "Par\u0069s"}`, `{"a": 1, `, `{}`, `"text"`}[r.IntN(4)]
		fmt.Fprintf(&b, "<tool_call>\n{\"name\": \"f\", \"arguments\": %s}\n</tool_call>", arguments)
	}
	return b.String()
}

// act sends a call: after any conversation so far, or one that was sent before.
func (w *wild) act() {
	if len(w.sent) > 0 && w.r.IntN(5) == 0 {
		w.send(w.sent[w.r.IntN(len(w.sent))], nil)
		return
	}
	at := len(w.ends) - 1 // most often the last one
	if w.r.IntN(3) == 0 {
		at = w.r.IntN(len(w.ends))
	}
	ms := append([]object{}, w.ends[at]...)
	if w.r.IntN(6) == 0 {
		ms = []object{{"role": "user", "content": fmt.Sprint("another matter ", w.r.IntN(3))}}
	}
	body := object{
		"model": "policy", "messages": ms, "temperature": 0, "logprobs": true, "parallel_tool_calls": false,
		"stream": w.r.IntN(2) == 0,
		"tools":  []object{{"type": "function", "function": object{"name": "f"}}},
	}
	raw, err := json.Marshal(body)
	require.NoError(w.t, err)
	w.sent = append(w.sent, string(raw))
	w.send(string(raw), ms)
}

func (w *wild) send(body string, ms []object) {
	r := httptest.NewRequest("POST", "http://127.0.0.1/episodes/"+w.e.ID+"/v1/chat/completions", strings.NewReader(body))
	if w.r.IntN(3) == 0 {
		r.Header.Set("X-Stainless-Retry-Count", "1")
	}
	rec := httptest.NewRecorder()
	out := http.ResponseWriter(rec)
	lost := w.r.IntN(6) == 0
	if lost {
		out = &cutting{rec, 0}
	}
	before := len(w.e.turns)
	w.g.server.Handler.ServeHTTP(out, r)
	if lost || rec.Code != 200 || ms == nil || len(w.e.turns) == before {
		return
	}
	a := w.e.turns[before].answer
	echo := object{"role": "assistant", "content": w.space(a.Text)}
	if w.r.IntN(2) == 0 {
		echo["content"] = "<think>\n\n" + a.Reasoning + "\n</think>\n\n" + a.Text
	}
	next := append([]object{}, ms...)
	if said, ok := ms[len(ms)-1]["content"].(string); ok && a.Text == "" && len(a.Calls) == 0 && w.r.IntN(2) == 0 {
		next[len(ms)-1] = object{"role": "user", "content": said + "\ngo on"} // the answer is left out
		w.ends = append(w.ends, next)
		return
	}
	var calls, results []object
	for _, c := range a.Calls {
		calls = append(calls, object{"id": c.ID, "type": "function", "function": object{"name": c.Name,
			"arguments": w.again(c.Arguments)}})
		results = append(results, object{"role": "tool", "tool_call_id": c.ID, "content": fmt.Sprint("result ", w.r.IntN(4))})
	}
	if len(calls) > 0 {
		echo["tool_calls"] = calls
	}
	next = append(append(next, echo), results...)
	if len(results) == 0 || w.r.IntN(4) == 0 {
		next = append(next, object{"role": "user", "content": []object{{"type": "text", "text": "go on"},
			{"type": "image_url", "image_url": object{"url": w.picture()}}}})
	}
	w.ends = append(w.ends, next)
}

// space changes the white space at the ends of a text.
func (w *wild) space(text string) string {
	return []string{text, strings.TrimSpace(text), "\n" + text + "\n"}[w.r.IntN(3)]
}

// again serialises arguments again.
func (w *wild) again(arguments string) string {
	var v any
	if json.Unmarshal([]byte(arguments), &v) != nil {
		return []string{arguments, "{}", `{"INVALID_JSON": "x"}`}[w.r.IntN(3)]
	}
	raw, err := json.Marshal(v)
	require.NoError(w.t, err)
	return string(raw)
}

func (w *wild) picture() string {
	im := image.NewRGBA(image.Rect(0, 0, 2, 2))
	im.Set(0, 0, color.RGBA{uint8(w.r.IntN(3)), 0, 0, 255})
	var b bytes.Buffer
	require.NoError(w.t, png.Encode(&b, im))
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}
