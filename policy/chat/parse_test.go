package chat

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/policy"
)

// read is an answer of testdata/answers.yaml, and what is read from it.
type read struct {
	Name                           string
	API                            API
	Body, Text, Reasoning, Refusal string
	Stop                           policy.Stop
	LogProbs                       []float32
	Used                           *struct{ Prompt, Completion, CacheRead, CacheWrite, Image, Reasoning int64 }
}

func TestAnswersAreRead(t *testing.T) {
	for _, c := range golden.Table[[]read](t, "answers.yaml") {
		want := answer{text: c.Text, reasoning: c.Reasoning, refusal: c.Refusal, stop: c.Stop, logProbs: c.LogProbs}
		if u := c.Used; u != nil {
			want.counted, want.used = true, tokens{u.Prompt, u.Completion, u.CacheRead, u.CacheWrite, u.Image, u.Reasoning}
		}
		t.Run(c.Name, func(t *testing.T) {
			got, err := providers[c.API].parse([]byte(c.Body))
			require.NoError(t, err)
			require.Equal(t, want, *got)
		})
	}
}

func TestMalformedAnswersAreErrors(t *testing.T) {
	for api, bodies := range map[API][]string{
		OpenAI: {``, `[]`, `{}`, `{"choices":[]}`, `{"choices":[{}]}`,
			`{"choices":[{"message":{"content":7},"finish_reason":"stop"}]}`,
			said(OpenAI, "x", "who knows", 1, 1), `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]} trailing`},
		Anthropic: {``, `null`, `{}`, `{"content":[]}`, `{"content":"text","stop_reason":"end_turn"}`,
			said(Anthropic, "x", "who knows", 1, 1)},
		Gemini: {``, `"x"`, `{}`, `{"candidates":[]}`, said(Gemini, "x", "", 1, 1),
			said(Gemini, "x", "MALFORMED_FUNCTION_CALL", 1, 1)},
	} {
		for _, body := range bodies {
			_, err := providers[api].parse([]byte(body))
			require.Error(t, err, "%s %s", api, body)
			require.False(t, errors.As(err, new(*fault)), "%s %s", api, body)
		}
	}
}

// fieldsSent are names of fields of a request in these tests.
var fieldsSent = []string{"temperature", "max_tokens", "thinking"}

// TestFailuresAreClassified compares verdicts on error bodies, as services send them.
func TestFailuresAreClassified(t *testing.T) {
	errs := map[string]error{"ErrNoRoom": policy.ErrNoRoom, "ErrKey": ErrKey, "ErrModel": ErrModel, "ErrQuota": ErrQuota,
		"ErrSetting": ErrSetting, "ErrUnreachable": ErrUnreachable, "ErrRefused": ErrRefused, "ErrRequest": ErrRequest,
		"ErrResponse": ErrResponse, "ErrBusy": ErrBusy, "ErrServer": ErrServer}
	for _, c := range golden.Table[[]struct {
		Name               string
		Status             int
		Body, Is, Concerns string
	}](t, "failures.yaml") {
		t.Run(c.Name, func(t *testing.T) {
			require.Contains(t, errs, c.Is)
			require.Equal(t, verdict{errs[c.Is], c.Concerns == "none", c.Concerns == "all"},
				classify(c.Status, explain([]byte(c.Body)), fieldsSent))
		})
	}
}

func TestExplanationsNameWhatTheServiceSaid(t *testing.T) {
	for body, want := range map[string]fault{
		`{"error":{"message":"m","code":"c","param":"p"}}`:     {message: "m", code: "c", param: "p"},
		`{"error":{"message":"m","code":null,"type":"t"}}`:     {message: "m", code: "t"},
		`{"error":{"message":"m","code":503,"status":"BUSY"}}`: {message: "m", code: "BUSY", status: 503},
		`{"error":"plain"}`:      {message: "plain"},
		`{"detail":"Not Found"}`: {message: "Not Found"},
		` bad gateway `:          {message: "bad gateway"},
		`{"what":1}`:             {message: `{"what":1}`},
		`{"error":{"details":[{"retryDelay":"3.5s"},{"x":1}]}}`: {
			message: `{"error":{"details":[{"retryDelay":"3.5s"},{"x":1}]}}`, after: 3.5e9},
		`{"error":{"message":"m","metadata":{"raw":{"deep":1}}}}`: {message: `m: {"deep":1}`},
	} {
		require.Equal(t, &want, explain([]byte(body)), body)
	}
}

// Errors inside of a 200 are failures, with the status that they name.
func TestErrorsInsideOfASuccessAreFaults(t *testing.T) {
	for body, status := range map[string]int{
		`{"error":{"code":429,"message":"slow"}}`:                    429,
		`{"choices":[{"error":{"code":502,"message":"upstream"}}]}`:  502,
		said(OpenAI, "half", "error", 1, 1):                          0,
		`{"error":{"code":"weird","message":"x"},"choices":[{},{}]}`: 0,
	} {
		_, err := openAI{}.parse([]byte(body))
		var f *fault
		require.ErrorAs(t, err, &f, body)
		require.Equal(t, status, f.status, body)
	}
}

func FuzzParse(f *testing.F) {
	for api := range providers {
		f.Add([]byte(fine(api, "text")))
	}
	f.Add([]byte(`{"error":{"code":400,"details":[{"retryDelay":"1s"}],"metadata":{"raw":{}}}}`))
	f.Add([]byte(`[{"error":"x"}]`))
	f.Add([]byte(`{"choices":[{"message":{"content":[{"type":"text","text":"a"}]},"logprobs":{"token_logprobs":[-1e300,null]}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for api, p := range providers {
			a, err := p.parse(data)
			if err != nil {
				continue
			}
			if a.stop == "" {
				t.Errorf("%s: no reason to stop", api)
			}
			for _, x := range a.logProbs {
				if !(x <= 0) || math.IsInf(float64(x), 0) {
					t.Errorf("%s: a log-prob of %v", api, x)
				}
			}
			if u := a.used; min(u.prompt, u.completion, u.cacheRead, u.cacheWrite, u.image, u.reasoning) < 0 {
				t.Errorf("%s: %+v tokens", api, u)
			}
			if _, err := json.Marshal(p.render(entry{policy.Assistant, []part{{text: a.text}}}, &Pictures{})); err != nil {
				t.Errorf("%s: the answer cannot be sent back: %v", api, err)
			}
		}
		classify(400, explain(data), fieldsSent)
	})
}

func FuzzHide(f *testing.F) {
	f.Add("the key is "+testKey+".", 3)
	f.Add(strings.Repeat("sk-test-0123", 3), 9)
	f.Fuzz(func(t *testing.T, text string, at int) {
		at = max(0, min(at, len(text)))
		s := newSecret(testKey)
		got := lower(s.hide(text[:at] + testKey + text[at:]))
		for i := range len(testKey) - piece + 1 {
			if strings.Contains(got, lower(testKey[i:i+piece])) {
				t.Fatalf("%q shows part of the key", got)
			}
		}
	})
}

// TestAnswersThatAreNotUTF8AreRefused: the text of a reward must not be one that the model
// did not write.
func TestAnswersThatAreNotUTF8AreRefused(t *testing.T) {
	for api, reason := range map[API]string{OpenAI: "stop", Anthropic: "end_turn", Gemini: "STOP"} {
		good := said(api, "Xcaf_", reason, 1, 1)
		for put, want := range map[string]string{"\xe9": "0xe9 is not UTF-8",
			`\udc00`: `\udc00 is half of a surrogate pair`} {
			_, err := providers[api].parse([]byte(strings.Replace(good, "_", put, 1)))
			require.ErrorContains(t, err, want, api)
			require.False(t, errors.As(err, new(*fault)), api)
		}
		a, err := providers[api].parse([]byte("\xef\xbb\xbf" + strings.Replace(good, "_", `\ud83d\ude00`, 1)))
		require.NoError(t, err, api)
		require.Equal(t, "Xcaf😀", a.text)
	}
}
