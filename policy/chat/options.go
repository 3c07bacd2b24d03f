package chat

import (
	"log/slog"
	"net/http"
	"time"
)

// API is a form of requests and answers.
type API string

// The known forms.
const (
	OpenAI    API = "openai"    // chat completions, of whatever service
	Anthropic API = "anthropic" // messages
	Gemini    API = "gemini"    // generateContent
)

// Options say which model is asked, and how. Defaults returns good ones; values
// are used as written.
type Options struct {
	API   API
	Model string // as the service calls it

	// BaseURL is where the service is, version included, for instance
	// http://localhost:8000/v1. Empty is the public address of the API.
	BaseURL string
	// KeyEnv is the environment variable that holds the key, in capitals. Empty is
	// OPENAI_API_KEY, ANTHROPIC_API_KEY, or GEMINI_API_KEY and then
	// GOOGLE_API_KEY, at the API's public address. Any other address gets no key
	// unless KeyEnv names one: nobody's key should go to somebody else.
	KeyEnv string

	// Header is sent with every request, for instance anthropic-beta. Headers that
	// carry keys are refused.
	Header map[string]string
	// Extra is put into every request's body, for instance chat_template_kwargs or
	// reasoning_effort; objects are merged with those that are there. It must not
	// repeat what the package sends itself.
	Extra map[string]any
	// Omit names sampling fields that the model does not take, as the API calls
	// them; they are not sent, whatever the Sampling says. Reasoning models want
	// "temperature" left out.
	Omit []string
	// MaxTokensField is the name of the limit on a response in the OpenAI form:
	// max_tokens or max_completion_tokens. Empty is the second at OpenAI and the
	// first elsewhere.
	MaxTokensField string

	// Stop lists texts that end a response. They are not part of it. Stop strings
	// of a Sampling must be among them.
	Stop []string
	// LogProbs asks for the log-probs of the chosen tokens. They are whatever the
	// service computes, most often before temperature and top-p. Anthropic has
	// none, and other services may leave them out.
	LogProbs bool
	Pictures Pictures

	Concurrency int // requests at once; must be positive
	// RequestsPerMinute and TokensPerMinute limit what is sent within any 60
	// seconds, retries included; 0 does not limit. A request counts with its
	// estimate (see ImageTokens) and its longest response until the service has
	// counted. One that exceeds the limit by itself waits until it is alone.
	RequestsPerMinute int
	TokensPerMinute   int
	// ImageTokens is what a picture is thought to cost in tokens until the service
	// has counted; 0 is 85 + width·height/750. Text is estimated at three bytes a
	// token.
	ImageTokens int

	Timeout time.Duration // of one attempt, from dialling to the last byte
	Retries int           // attempts after the first
	// The delay before retry n, counted from 0, is min(MaxDelay, Backoff·2ⁿ)·(1+U)/2
	// with U uniform in [0, 1). If the service asks for a longer one it gets that,
	// up to MaxDelay, and when it says so with status 429 all requests wait.
	Backoff    time.Duration
	MaxDelay   time.Duration
	JitterSeed uint64 // of U, together with the prompt's seed

	// Prices is a table by model name. Without a price for Model nothing is known
	// of cost, and there can be no Budget.
	Prices map[string]Price
	// Budget limits the cost of everything that this Model ever sends; 0 does not
	// limit. A request is sent only if it fits when it costs its estimate and the
	// longest response.
	Budget float64

	MaxResponse int64 // bytes of an answer's body

	// Transport makes the requests. Nil is one of the Model's own, with the proxy
	// of the environment.
	Transport http.RoundTripper
	// Log hears of retries and requests given up; nil discards them.
	Log *slog.Logger
}

// Pictures says how pictures are sent.
type Pictures struct {
	// JPEG is the quality, 1 to 100, with which they are compressed; transparent
	// ones are put on white. 0 sends PNG, which loses nothing.
	JPEG int
	// MaxSide shrinks pictures whose longer side has more pixels; 0 shrinks none.
	MaxSide int
	// Detail is low, high or auto, in the OpenAI form alone; empty is not sent.
	Detail string
}

// Price is what a million tokens cost, in any currency.
type Price struct {
	Prompt     float64
	Completion float64 // reasoning included
	CacheRead  float64 // of prompt tokens read from the service's cache; 0 is Prompt
	CacheWrite float64 // of prompt tokens written to it; 0 is Prompt
}

// Defaults returns options for a model at the API's public address: 8 requests at
// once, 5 minutes each, 5 retries after 1, 2, 4, … seconds and at most a minute.
func Defaults(api API, model string) Options {
	return Options{
		API: api, Model: model, Concurrency: 8, Timeout: 5 * time.Minute,
		Retries: 5, Backoff: time.Second, MaxDelay: time.Minute, MaxResponse: 16 << 20,
	}
}
