// Package chat holds policies behind an API: models that somebody else serves,
// for evaluation, demonstrations and comparison. They implement policy.Policy and
// cannot learn.
//
//	API        request                                  served by
//	OpenAI     POST BaseURL/chat/completions            OpenAI, vLLM, SGLang, Together, OpenRouter, …
//	Anthropic  POST BaseURL/messages                    Anthropic
//	Gemini     POST BaseURL/models/MODEL:generateContent  Google
//
// The forms of requests and answers are those of the public references: OpenAI's
// "Chat completions" and the guide to errors, with what vLLM, SGLang and
// OpenRouter add (top_k, min_p, numeric error codes, errors inside of a 200);
// Anthropic's "Messages", "Handling stop reasons" and "Errors", version
// 2023-06-01; Google's "Generating content" (v1beta) and google.rpc.RetryInfo.
//
// # Conversations
//
// These APIs remember nothing, so a Model keeps each conversation, pictures
// encoded, and sends all of it every time. A call of Generate that fails leaves
// all conversations as they were and may be repeated; what its requests have cost
// is spent. A completion holds text, no tokens: Context and Tokens are empty.
//
// # What fails what
//
// A failure that has to do with one conversation is in its Completion.Err: the
// context is too long (policy.ErrNoRoom), the service refuses to answer
// (ErrRefused), or an answer could not be had even with retries (ErrBusy,
// ErrServer, ErrResponse, …). A failure that would meet every conversation fails
// the call: the key (ErrKey), the model (ErrModel), an account without credit
// (ErrQuota), a setting that the model does not take (ErrSetting), an address
// where nobody answers (ErrUnreachable) and the end of the budget (ErrBudget).
//
// Statuses 408, 409, 429, 5xx and failures of the network are retried, with
// exponential back-off; all others are final.
//
// # Keys
//
// A key is read from an environment variable when the Model is made, and stays
// inside: it is in no option, error, log or printed value. Where a service sends
// it back, also in part, it is cut out.
//
// # Repeatability
//
// Completions stand in the order of the prompts, and requests are admitted in
// that order, however many run at once. Prompt.Seed is sent, folded to 31 bits,
// where the API takes a seed, which no service promises to obey in full; Anthropic
// takes none.
package chat
