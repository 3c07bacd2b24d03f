package chat

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
)

func TestAnswersAreRead(t *testing.T) {
	for _, c := range []struct {
		name string
		api  API
		body string
		want answer
	}{
		{"openai", OpenAI, `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop","logprobs":{"content":[
			{"token":"h","logprob":-0.5},{"token":"i","logprob":1e-7}]}}],"usage":{"prompt_tokens":12,"completion_tokens":3,
			"prompt_tokens_details":{"cached_tokens":4,"image_tokens":6},"completion_tokens_details":{"reasoning_tokens":2}}}`,
			answer{text: "hi", stop: policy.StopEnd, logProbs: []float32{-0.5, 0}, counted: true,
				used: tokens{prompt: 12, completion: 3, cacheRead: 4, image: 6, reasoning: 2}}},
		{"openai length", OpenAI, said(OpenAI, "cut", "length", 1, 2),
			answer{text: "cut", stop: policy.StopLength, counted: true, used: tokens{prompt: 1, completion: 2}}},
		{"openai filter", OpenAI, said(OpenAI, "", "content_filter", 1, 0),
			answer{stop: policy.StopFilter, refusal: "content filter", counted: true, used: tokens{prompt: 1}}},
		{"openai refusal", OpenAI, `{"choices":[{"message":{"content":null,"refusal":"No."},"finish_reason":"stop"}]}`,
			answer{text: "No.", stop: policy.StopFilter, refusal: "refusal"}},
		{"parts", OpenAI, `{"choices":[{"message":{"content":[{"type":"thinking","text":"hm"},{"type":"text","text":"a"},{"type":"text","text":"b"}]},"finish_reason":null}]}`,
			answer{text: "ab", reasoning: "hm", stop: policy.StopEnd}},
		{"together", OpenAI, `{"choices":[{"message":{"content":"x"},"finish_reason":"eos","logprobs":{"tokens":["x"],"token_logprobs":[-2]}}],"usage":null}`,
			answer{text: "x", stop: policy.StopEnd, logProbs: []float32{-2}}},
		{"broken usage is no reason to lose the answer", OpenAI,
			`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":-3}}`,
			answer{text: "x", stop: policy.StopEnd}},
		{"log-probs with a hole are none", OpenAI,
			`{"choices":[{"message":{"content":"x"},"finish_reason":"stop","logprobs":{"content":[{"logprob":-1},{}]}}]}`,
			answer{text: "x", stop: policy.StopEnd}},
		{"anthropic", Anthropic, `{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"},{"type":"text","text":"b"}],"stop_reason":"stop_sequence",
			"usage":{"input_tokens":5,"output_tokens":7,"cache_read_input_tokens":100,"cache_creation_input_tokens":20}}`,
			answer{text: "ab", reasoning: "hm", stop: policy.StopEnd, counted: true,
				used: tokens{prompt: 125, completion: 7, cacheRead: 100, cacheWrite: 20}}},
		{"anthropic length", Anthropic, said(Anthropic, "cut", "max_tokens", 1, 2),
			answer{text: "cut", stop: policy.StopLength, counted: true, used: tokens{prompt: 1, completion: 2}}},
		{"anthropic window", Anthropic, said(Anthropic, "cut", "model_context_window_exceeded", 1, 2),
			answer{text: "cut", stop: policy.StopLength, counted: true, used: tokens{prompt: 1, completion: 2}}},
		{"anthropic refusal", Anthropic, `{"content":[],"stop_reason":"refusal"}`,
			answer{stop: policy.StopFilter, refusal: "refusal"}},
		{"gemini", Gemini, `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"a"},{"text":"b"}]},"finishReason":"STOP",
			"logprobsResult":{"chosenCandidates":[{"token":"a","logProbability":-0.25}]}}],"usageMetadata":{"promptTokenCount":300,"candidatesTokenCount":2,
			"thoughtsTokenCount":9,"cachedContentTokenCount":50,"promptTokensDetails":[{"modality":"TEXT","tokenCount":42},{"modality":"IMAGE","tokenCount":258}]}}`,
			answer{text: "ab", reasoning: "hm", stop: policy.StopEnd, logProbs: []float32{-0.25}, counted: true,
				used: tokens{prompt: 300, completion: 11, cacheRead: 50, image: 258, reasoning: 9}}},
		{"gemini length", Gemini, said(Gemini, "cut", "MAX_TOKENS", 1, 2),
			answer{text: "cut", stop: policy.StopLength, counted: true, used: tokens{prompt: 1, completion: 2}}},
		{"gemini safety", Gemini, said(Gemini, "par", "SAFETY", 1, 2),
			answer{text: "par", stop: policy.StopFilter, refusal: "SAFETY", counted: true,
				used: tokens{prompt: 1, completion: 2}}},
		{"gemini blocked", Gemini, `{"promptFeedback":{"blockReason":"OTHER"},"usageMetadata":{"promptTokenCount":8}}`,
			answer{stop: policy.StopFilter, refusal: "prompt: OTHER", counted: true, used: tokens{prompt: 8}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := providers[c.api].parse([]byte(c.body))
			require.NoError(t, err)
			require.Equal(t, c.want, *got)
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
	const conversation, everyone, again = 0, 1, 2
	for _, c := range []struct {
		name   string
		status int
		body   string
		err    error
		what   int
	}{
		{"openai context", 400, `{"error":{"message":"Too long.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, policy.ErrNoRoom, conversation},
		{"vllm context", 400, `{"object":"error","message":"This model's maximum context length is 8192 tokens. However, you requested 8203 tokens (7691 in the messages, 512 in the completion).","type":"BadRequestError","param":null,"code":400}`, policy.ErrNoRoom, conversation},
		{"vllm context, named field", 400,
			`{"error":{"message":"max_tokens must be at least 1, got -3.","type":"BadRequestError","param":"max_tokens","code":400}}`, policy.ErrNoRoom, conversation},
		{"sglang context", 400, `{"object":"error","message":"The input (9000 tokens) is longer than the model's context length (8192 tokens).","type":"BadRequest","code":400}`, policy.ErrNoRoom, conversation},
		{"together context", 422, "{\"error\":{\"message\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000\",\"type\":\"invalid_request_error\"}}", policy.ErrNoRoom, conversation},
		{"openrouter context", 400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 9 tokens > 8 maximum\"}}","provider_name":"X"}}}`, policy.ErrNoRoom, conversation},
		{"anthropic context", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208656 tokens > 200000 maximum"}}`, policy.ErrNoRoom, conversation},
		{"anthropic context with response", 400,
			"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"input length and `max_tokens` exceed context limit: 1 + 2 > 2\"}}", policy.ErrNoRoom, conversation},
		{"anthropic size", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, policy.ErrNoRoom, conversation},
		{"gemini context", 400, `{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`, policy.ErrNoRoom, conversation},

		{"openai key", 401, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`, ErrKey, everyone},
		{"gemini key", 400, `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`, ErrKey, everyone},
		{"permission", 403, `{"type":"error","error":{"type":"permission_error","message":"no"}}`, ErrKey, everyone},
		{"model", 404, `{"error":{"message":"The model does not exist","code":"model_not_found"}}`, ErrModel, everyone},
		{"openrouter model", 400, `{"error":{"message":"foo is not a valid model ID","code":400}}`, ErrModel, everyone},
		{"no such page", 404, `<html>not here</html>`, ErrModel, everyone},
		{"openai quota", 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, ErrQuota, everyone},
		{"openrouter quota", 402, `{"error":{"message":"Insufficient credits","code":402}}`, ErrQuota, everyone},
		{"anthropic quota", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`, ErrQuota, everyone},
		{"openai setting", 400, `{"error":{"message":"Unsupported value","param":"temperature","code":"unsupported_value"}}`,
			ErrSetting, everyone},
		{"anthropic setting", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"thinking.budget_tokens: too small"}}`, ErrSetting, everyone},
		{"gemini setting", 400, `[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"minP\"","status":"INVALID_ARGUMENT"}}]`, ErrSetting, everyone},
		{"redirect", 308, ``, ErrUnreachable, everyone},

		{"moderation", 403, `{"error":{"code":403,"message":"flagged","metadata":{"reasons":["violence"],"flagged_input":"x"}}}`, ErrRefused, conversation},
		{"content policy", 400, `{"error":{"message":"no","code":"content_policy_violation"}}`, ErrRefused, conversation},
		{"other", 400, `{"error":{"message":"messages.0: bad image"}}`, ErrRequest, conversation},
		{"fastapi", 422, `{"detail":[{"loc":["body","messages"],"msg":"field required"}]}`, ErrRequest, conversation},
		{"teapot", 418, `short and stout`, ErrRequest, conversation},
		{"informal success", 204, ``, ErrResponse, conversation},

		{"rate", 429, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, ErrBusy, again},
		{"timeout", 408, ``, ErrServer, again},
		{"conflict", 409, ``, ErrServer, again},
		{"server", 500, `oops`, ErrServer, again},
		{"overloaded", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, ErrServer, again},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, verdict{c.err, c.what == again, c.what == everyone},
				classify(c.status, explain([]byte(c.body)), fieldsSent))
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
