package chat

import (
	"net/http"
	"slices"
	"strings"

	"vagen/policy"
)

// verdict classifies a failure.
type verdict struct {
	err        error // sentinel
	retry      bool  // a retry may succeed
	affectsAll bool  // the failure affects every conversation
}

// contextErrors are parts of the messages with which services report a conversation that
// exceeds the model's context, with the sentence they are from.
var contextErrors = []string{
	"context_length_exceeded",        // OpenAI's code
	"maximum context length",         // OpenAI, vLLM, OpenRouter: This model's maximum context length is …
	"context length",                 // SGLang: … is longer than the model's context length
	"too long to fit into the model", // vLLM: The prompt (total length …) is too long to fit into the model
	"max_tokens must be at least 1, got -",
	"tokens + `max_new_tokens`", // Together: `inputs` tokens + `max_new_tokens` must be <= …
	"prompt is too long",        // Anthropic: prompt is too long: … tokens > … maximum
	"exceed context limit",      // Anthropic: input length and `max_tokens` exceed context limit
	"context window",            // OpenAI: Your input exceeds the context window of this model
	"input token count",         // Google: The input token count … exceeds the maximum number of tokens
	"request_too_large",         // Anthropic's code for a body that is too large
}

// classify returns the verdict on a failure with an HTTP status. sent are the names
// of the fields that every request has, except for the messages.
func classify(status int, f *fault, sent []string) verdict {
	text := strings.ToLower(f.code + " " + f.message)
	has := func(pieces ...string) bool {
		return slices.ContainsFunc(pieces, func(p string) bool { return strings.Contains(text, p) })
	}
	code := func(names ...string) bool { return slices.Contains(names, f.code) }
	switch {
	case status >= 300 && status < 400:
		return verdict{err: ErrUnreachable, affectsAll: true}
	case status >= 500 && status <= 599:
		return verdict{err: ErrServer, retry: true}
	case code("insufficient_quota", "billing_error"), status == http.StatusPaymentRequired,
		status == http.StatusBadRequest && has("credit balance is too low"):
		return verdict{err: ErrQuota, affectsAll: true}
	case status == http.StatusRequestTimeout, status == http.StatusConflict:
		return verdict{err: ErrServer, retry: true}
	case status == http.StatusTooManyRequests:
		return verdict{err: ErrBusy, retry: true}
	case f.moderated, code("content_filter", "content_policy_violation"), has("content management policy"):
		return verdict{err: ErrRefused}
	case status == http.StatusUnauthorized, status == http.StatusForbidden,
		slices.ContainsFunc(f.reasons, func(r string) bool { return strings.HasPrefix(r, "API_KEY_") }):
		return verdict{err: ErrKey, affectsAll: true}
	case status == http.StatusNotFound, code("model_not_found"), has("not a valid model"):
		return verdict{err: ErrModel, affectsAll: true}
	case status == http.StatusRequestEntityTooLarge, has(contextErrors...):
		return verdict{err: policy.ErrNoRoom}
	case status < 400 || status > 599:
		return verdict{err: ErrResponse}
	case code("unsupported_parameter", "unsupported_value", "unknown_parameter"),
		has("unrecognized request argument", "unknown name"),
		slices.Contains(sent, f.param), about(f.message, sent):
		return verdict{err: ErrSetting, affectsAll: true}
	}
	return verdict{err: ErrRequest}
}

// about reports whether a message begins with the name of a field, as in
// "temperature: must be at most 1".
func about(message string, sent []string) bool {
	message = strings.TrimLeft(message, "`'\"")
	end := strings.IndexFunc(message, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	return end > 0 && slices.Contains(sent, message[:end])
}
