package chat

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
)

func TestDefaultsAreValid(t *testing.T) {
	for api := range providers {
		o := DefaultOptions(api, "m")
		require.NoError(t, o.Validate(), api)
	}
}

func TestAFactoryMustReturnABackEnd(t *testing.T) {
	var r Registry
	require.NoError(t, r.Register("empty", func(context.Context, Options) (policy.Policy, error) { return nil, nil }))
	_, err := r.New(t.Context(), Options{API: "empty"})
	require.EqualError(t, err, `chat: back end "empty": its factory returned nil`)
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	o := Options{
		API: Gemini, Model: "a b", BaseURL: "host:80", KeyEnv: "small",
		Header: map[string]string{"Content-Type": "x", "a b": "c", "D": "e\nf"},
		Extra:  map[string]any{"contents": 1, "generationConfig": map[string]any{"topP": 1}}, Omit: []string{"top_p"},
		MaxTokensField: "max_tokens",
		Stop:           []string{"a", "b", "c", "d", "e", " "}, Pictures: Pictures{JPEG: 101, MaxSide: -1, Detail: "low"},
		RequestsPerMinute: -1, TokensPerMinute: -1, ImageTokens: -1, Retries: -1, Backoff: -1, MaxDelay: -2,
		Prices: map[string]Price{"other": {Prompt: math.NaN()}}, Budget: 1,
	}
	err := o.Validate()
	require.Error(t, err)
	for _, want := range []string{
		`chat: Model: "a b"`, `chat: BaseURL: "host:80"`, "chat: KeyEnv: ",
		`chat: Header: "Content-Type" is set by the package itself`, `chat: Header: "a b" is not a valid header name`,
		`chat: Header: the value of "D"`, `chat: Extra: "contents"`, `chat: Extra: generationConfig: "topP"`,
		`chat: Omit: entry 0, "top_p", is not one of [temperature topP topK seed]`, "chat: MaxTokensField: ",
		"chat: Stop: entry 5 is empty",
		"chat: Stop: 6 texts, the API allows 5", "chat: Pictures.JPEG: 101", "chat: Pictures.MaxSide: -1",
		"chat: Pictures.Detail: ",
		"chat: Concurrency: 0, must be at least 1", "chat: RequestsPerMinute: -1", "chat: TokensPerMinute: -1",
		"chat: ImageTokens: -1", "chat: Retries: -1",
		"chat: Timeout: 0s", "chat: Backoff: -1ns", "chat: MaxDelay: -2ns, must be at least 0s",
		"chat: MaxDelay: -2ns is below Backoff", "chat: MaxResponse: 0",
		`chat: Prices: "other" has a price of NaN`, "chat: Budget: 1 needs a price",
	} {
		require.ErrorContains(t, err, want)
	}
	require.Len(t, strings.Split(err.Error(), "\n"), 27)

	o = DefaultOptions("cohere", "m")
	require.EqualError(t, o.Validate(), `chat: API: "cohere" is not one of [anthropic gemini openai]`)
	o = DefaultOptions(Anthropic, "m")
	o.LogProbs = true
	require.EqualError(t, o.Validate(), `chat: LogProbs: the API "anthropic" does not return log-probs`)
	o = DefaultOptions(OpenAI, "m")
	o.MaxTokensField, o.Pictures.Detail, o.Extra = "limit", "huge", map[string]any{"x": make(chan int)}
	o.Budget = math.Inf(1)
	for _, want := range []string{`MaxTokensField: "limit"`, `Pictures.Detail: "huge"`, "Extra: ", "Budget: +Inf"} {
		require.ErrorContains(t, o.Validate(), want)
	}
}

// Fields that the package does not send may be sent by the caller.
func TestExtraMayReplaceWhatIsOmitted(t *testing.T) {
	o := DefaultOptions(OpenAI, "m")
	o.Extra = map[string]any{"temperature": 1}
	require.ErrorContains(t, o.Validate(), `Extra: "temperature"`)
	o.Omit = []string{"temperature"}
	require.NoError(t, o.Validate())
	o.Extra["logprobs"] = 1
	require.NoError(t, o.Validate())
	o.LogProbs = true
	require.ErrorContains(t, o.Validate(), `Extra: "logprobs"`)
}

func TestSamplingThatTheAPIDoesNotSupportIsRefused(t *testing.T) {
	for api, bad := range map[API]map[string]policy.Sampling{
		OpenAI: {"temperature is -1": {Temperature: -1},
			"Thinking.Tokens is 3": {Thinking: policy.Thinking{Tokens: 3, Close: "x"}},
			"stop string \"b\"":    {StopStrings: []string{"a", "b"}}},
		Anthropic: {"temperature is 1.1": {Temperature: 1.1}, "min-p is 0.1": {MinP: 0.1}},
		Gemini:    {"temperature is 2.1": {Temperature: 2.1}, "min-p is 0.1": {MinP: 0.1}},
	} {
		for want, s := range bad {
			o := options(t, api, "http://test")
			o.Stop = []string{"a"}
			m := newModel(t, o)
			s.MaxTokens = 1
			_, err := m.Generate(context.Background(), []policy.Prompt{prompt(1, user("hi"))}, s)
			require.ErrorContains(t, err, "chat: bad sampling: "+want)
		}
	}
}
