package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/policy"
)

// testKey is not a real key.
const testKey = "sk-Test-0123456789abcdefXYZ"

const keyName = "VAGEN_CHAT_TEST_KEY"

// bases are inserted between a server's address and the API's paths.
var bases = map[API]string{OpenAI: "/v1", Anthropic: "/v1", Gemini: "/v1beta"}

// options are those for a test server, without retries.
func options(t *testing.T, api API, url string) Options {
	t.Helper()
	t.Setenv(keyName, testKey)
	o := DefaultOptions(api, "some-model")
	o.BaseURL, o.KeyEnv, o.Retries = url+bases[api], keyName, 0
	o.Timeout = 10 * time.Second
	return o
}

func newModel(t *testing.T, o Options) *Model {
	t.Helper()
	m, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// call is a request as the server received it.
type call struct {
	Path   string            `json:"path"`
	Header map[string]string `json:"header"`
	Body   map[string]any    `json:"body"`
}

// recorder is a server that records requests and answers them with a function.
type recorder struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
}

// saying is a server that answers each request with a text.
func saying(t *testing.T, api API, text func(n int) string) *recorder {
	return record(t, func(n int, w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, fine(api, text(n))) })
}

func record(t *testing.T, reply func(n int, w http.ResponseWriter, r *http.Request)) *recorder {
	t.Helper()
	rec := &recorder{}
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := call{Path: r.URL.RequestURI(), Header: map[string]string{}}
		for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Anthropic-Version", "Anthropic-Beta",
			"Content-Type"} {
			if v := r.Header.Get(name); v != "" {
				c.Header[name] = v
			}
		}
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(raw, &c.Body)
		}
		if err != nil || r.Method != http.MethodPost {
			http.Error(w, fmt.Sprint("the request is broken: ", r.Method, err), http.StatusTeapot)
			return
		}
		rec.mu.Lock()
		n := len(rec.calls)
		rec.calls = append(rec.calls, c)
		rec.mu.Unlock()
		reply(n, w, r)
	}))
	t.Cleanup(rec.Close)
	return rec
}

func (r *recorder) all() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]call(nil), r.calls...)
}

// said is an answer of an API, with its name for the reason why it ended.
func said(api API, text, reason string, prompt, completion int) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	switch api {
	case OpenAI:
		return fmt.Sprintf(`{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":%s,"refusal":null},
			"finish_reason":%q,"logprobs":null}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, quoted, reason, prompt, completion)
	case Anthropic:
		return fmt.Sprintf(`{"id":"x","type":"message","role":"assistant","content":[{"type":"text","text":%s}],
			"stop_reason":%q,"stop_sequence":null,"usage":{"input_tokens":%d,"output_tokens":%d}}`, quoted, reason, prompt, completion)
	}
	return fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[{"text":%s}]},"finishReason":%q,"index":0}],
		"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d}}`, quoted, reason, prompt, completion)
}

// ended is each API's name for an ordinary end.
var ended = map[API]string{OpenAI: "stop", Anthropic: "end_turn", Gemini: "STOP"}

func fine(api API, text string) string { return said(api, text, ended[api], 100, 10) }

func user(text string, images ...image.Image) policy.Message {
	return policy.Message{Role: policy.User, Text: text, Images: images}
}

func system(text string, images ...image.Image) policy.Message {
	return policy.Message{Role: policy.System, Text: text, Images: images}
}

func prompt(key uint64, messages ...policy.Message) policy.Prompt {
	return policy.Prompt{Conversation: key, Messages: messages, Seed: key}
}

var short = policy.Sampling{MaxTokens: 20}

// asks asks for short completions.
func asks(m *Model, prompts ...policy.Prompt) ([]policy.Completion, error) {
	return m.Generate(context.Background(), prompts, short)
}

// one asks for a single completion.
func one(t *testing.T, m *Model, p policy.Prompt) policy.Completion {
	t.Helper()
	out, err := asks(m, p)
	require.NoError(t, err)
	require.Len(t, out, 1)
	return out[0]
}

// painted is an image of one colour per column.
func painted(colors ...color.NRGBA) image.Image {
	im := image.NewNRGBA(image.Rect(0, 0, len(colors), 2))
	for x, c := range colors {
		for y := range 2 {
			im.SetNRGBA(x, y, c)
		}
	}
	return im
}

var (
	red  = color.NRGBA{R: 255, A: 255}
	blue = color.NRGBA{B: 255, A: 255}
)

// tripper answers requests without a network.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func response(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}
