// Package chat has policies behind an API: models that another service runs, for
// evaluation, demonstrations and comparison. They implement policy.Policy and cannot
// be trained. New makes a Model of Options; Model.Usage counts tokens and cost at a Price.
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
// These APIs are stateless, so a Model stores each conversation with encoded images
// and sends all of it every time. A call of Generate that fails leaves all
// conversations unchanged and may be repeated; the cost of its requests still counts.
// A completion has text but no tokens: Context and Tokens are empty. Reasoning that a
// service returns apart from the answer (reasoning_content or reasoning, thinking blocks,
// thoughts) is in Completion.Reasoning, and is not sent back.
//
// # Errors of a conversation and errors of a call
//
// A failure of one conversation is in its Completion.Err: the context is too long
// (policy.ErrNoRoom), the service refuses to answer (ErrRefused), or all retries
// failed (ErrBusy, ErrServer, ErrResponse, …). A failure that affects every
// conversation fails the call: the key (ErrKey), the model (ErrModel), an account
// without credit (ErrQuota), a setting that the model does not support (ErrSetting),
// an address that cannot be reached (ErrUnreachable) and an exhausted budget
// (ErrBudget).
//
// Statuses 408, 409, 429, 5xx and failures of the network are retried, with
// exponential back-off; all others are final.
//
// # Keys
//
// A key is read from an environment variable when the Model is created. It is in no
// option, error, log or printed value. If a service sends it back, also in part, it is
// removed from the text.
//
// # Reproducibility
//
// Completions are in the order of the prompts, and requests are admitted in that
// order, however many run at once. Prompt.Seed is sent, folded to 31 bits, where the
// API has a seed; no service guarantees reproducible results with it. Anthropic has
// no seed.
package chat
