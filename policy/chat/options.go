package chat

import (
	"log/slog"
	"net/http"
	"time"
)

// API is a protocol of requests and answers.
type API string

// The known protocols.
const (
	OpenAI    API = "openai"    // chat completions, of any service
	Anthropic API = "anthropic" // messages
	Gemini    API = "gemini"    // generateContent
)

// Options define the model and how requests are sent. DefaultOptions returns recommended
// values. Every value is used as written.
type Options struct {
	API   API
	Model string // as the service calls it

	// BaseURL is the address of the service with the API version, for instance
	// http://localhost:8000/v1. Empty is the public address of the API.
	BaseURL string
	// KeyEnv is the environment variable that holds the key, in capitals. Empty is
	// OPENAI_API_KEY, ANTHROPIC_API_KEY, or GEMINI_API_KEY and then
	// GOOGLE_API_KEY, at the API's public address. To any other address no key is
	// sent unless KeyEnv names one, so that a key is not sent to a wrong service.
	KeyEnv string `holds:"variable"`

	// Header is sent with every request, for instance anthropic-beta. Headers that
	// carry keys are refused.
	Header map[string]string
	// Extra is added to every request's body, for instance chat_template_kwargs or
	// reasoning_effort; objects are merged. It must not contain fields that the package
	// sends itself.
	Extra map[string]any
	// Omit names sampling fields, as the API calls them, that are not sent. Reasoning
	// models often refuse "temperature".
	Omit []string
	// MaxTokensField is the name of the limit on a response in the OpenAI form:
	// max_tokens or max_completion_tokens. Empty is the second at OpenAI and the
	// first elsewhere.
	MaxTokensField string

	// Stop lists texts that end a response. They are not part of it. Stop strings
	// of a Sampling must be among them.
	Stop []string
	// Opened is the text with which the server's chat template begins every response, such as
	// <think>, if the server leaves it out of its answers: it is put in front of them. It has no
	// effect on answers with their reasoning apart.
	Opened string
	// LogProbs requests the log-probs of the chosen tokens, as the service computes
	// them, usually before temperature and top-p. Anthropic has none, and other
	// services may leave them out.
	LogProbs bool
	Pictures Pictures

	Concurrency int `least:"1"` // requests at once
	// RequestsPerMinute and TokensPerMinute limit what is sent within any 60
	// seconds, retries included; 0 does not limit. A request counts with its
	// estimate (see ImageTokens) and its longest response until the service has
	// counted. A request that alone exceeds the limit waits until no other counts.
	RequestsPerMinute int `least:"0"`
	TokensPerMinute   int `least:"0"`
	// ImageTokens is the estimated number of tokens of an image until the service
	// has counted them; 0 is 85 + width·height/750. Text is estimated at three bytes
	// per token.
	ImageTokens int `least:"0"`

	Timeout time.Duration `least:"1"` // of one attempt, from dialling to the last byte
	Retries int           `least:"0"` // attempts after the first
	// The delay before retry n, counted from 0, is min(MaxDelay, Backoff·2ⁿ)·(1+U)/2
	// with U uniform in [0, 1). A longer delay that the service asks for is used instead; if
	// it asks with status 429, all requests wait. A request that it does not want to see for
	// more than an hour is not retried. Waiting ends with the context of the call.
	Backoff    time.Duration `least:"0"`
	MaxDelay   time.Duration `least:"0"`
	JitterSeed uint64        // of U, together with the prompt's seed

	// Prices is a table by model name. Without a price for Model the cost is 0 and a
	// Budget is refused.
	Prices map[string]Price
	// Budget limits the total cost of this Model; 0 is no limit. A request is sent
	// only if its estimated cost, with the longest response, fits.
	Budget float64 `range:"0,3.4e38" must:"be finite and not negative"`

	MaxResponse int64 `least:"1"` // bytes of an answer's body

	// Transport sends the requests. Nil is a new transport of this Model, with the
	// proxy of the process environment.
	Transport http.RoundTripper
	// Log receives retries and failed requests; nil discards them.
	Log *slog.Logger
}

// Pictures defines how images are sent.
type Pictures struct {
	// JPEG is the quality, 1 to 100, of lossy compression; transparent images are put
	// on white. 0 sends PNG, which is lossless.
	JPEG int
	// MaxSide scales down images whose longer side has more pixels; 0 scales none.
	MaxSide int
	// Detail is low, high or auto, only for the API OpenAI; empty is not sent.
	Detail string
}

// Price is the cost of a million tokens, in any currency.
type Price struct {
	Prompt     float64
	Completion float64 // reasoning included
	CacheRead  float64 // of prompt tokens read from the service's cache; 0 is Prompt
	CacheWrite float64 // of prompt tokens written to it; 0 is Prompt
}

// DefaultOptions returns options for a model at the API's public address: 8 requests at
// once, 5 minutes each, 6 retries after 0.5, 1, 2, … seconds and at most 8.
func DefaultOptions(api API, model string) Options {
	return Options{
		API: api, Model: model, Concurrency: 8, Timeout: 5 * time.Minute,
		Retries: 6, Backoff: time.Second / 2, MaxDelay: 8 * time.Second, MaxResponse: 16 << 20,
	}
}
