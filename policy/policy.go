package policy

import (
	"context"
	"errors"
	"image"
)

// ImageMark marks the position of an image in a message's text.
const ImageMark = "<image>"

// Role is the author of a Message.
type Role string

// The roles of a conversation.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool" // the result of a call, see ToolPrompter
)

// Message is one entry of a conversation. ImageMark in Text marks the position of each
// image.
type Message struct {
	Role   Role
	Text   string
	Images []image.Image

	// Unlearned says that an assistant's message has no loss, for Encoder: it may lack the text
	// with which the chat template opens every response, as in histories without their thoughts.
	Unlearned bool
}

// Policy generates responses. Methods are called one at a time, unless rollout.Player.Continuous is set: then calls of
// different conversations overlap.
type Policy interface {
	// Generate continues each prompt's conversation by one response and returns one
	// completion per prompt, in order. Rows are independent: what a row samples depends
	// only on its own conversation and seed.
	Generate(ctx context.Context, prompts []Prompt, s Sampling) ([]Completion, error)
	// Forget ends conversations and frees their state. Unknown keys are ignored.
	Forget(keys ...uint64)
}

// Prompt is a request for one response.
type Prompt struct {
	// Conversation identifies the conversation. The first prompt with a key opens it,
	// later ones continue it: the policy keeps all tokens read and written before, and
	// nothing is tokenised twice.
	Conversation uint64
	// Messages are the messages since the last completion: system and user when the
	// conversation opens, user afterwards. The opening may contain earlier turns,
	// including the assistant's. The last message is the user's, or a tool's.
	Messages []Message
	// Seed is the only source of randomness in sampling.
	Seed uint64
	// MaxTokens limits the response; 0 means Sampling.MaxTokens.
	MaxTokens int
	// StopStrings end the response, as those of Sampling do.
	StopStrings []string
}

// Stop is the reason why a response ended.
type Stop string

// The reasons.
const (
	StopEnd    Stop = "end"    // the model wrote an end-of-turn token
	StopLength Stop = "length" // the limit was reached first
	StopString Stop = "string" // one of the stop strings was written
	StopFilter Stop = "filter" // the service's content filter stopped the response (API policies only)
	// StopVision means that the model wrote an image placeholder, for which there is no
	// image: the conversation cannot be continued. Models of package vlm never sample one.
	StopVision Stop = "vision token"
)

// Completion is one response, and the context tokens before it.
//
// Context and Tokens together are exactly what the model read and wrote in this
// call; concatenated over the calls of a conversation they are its training row.
// Policies behind an API may leave both empty and set only Text.
type Completion struct {
	Context  []int32   // tokens before the response: template, messages, image placeholders
	Tokens   []int32   // response tokens, including the end-of-turn token if it was written
	LogProbs []float32 // of Tokens, from the plain softmax at the sampling temperature
	Forced   []int     // indices in Tokens of tokens inserted by Sampling.Thinking, which the policy did not choose
	// Text is the response without end-of-turn token. It begins with
	// the text with which the chat template opens every response, such as <think>, if any: its
	// tokens are at the end of Context, not in Tokens, so they have no log-prob and no loss.
	Text string
	// Reasoning is what a service returned as the model's reasoning, apart from the answer in
	// Text; "" for none. reward.Parser.Rejoin puts the two together.
	Reasoning string
	Stop      Stop
	Images    []Image // images of the context, in order
	Usage     Usage   // for policies behind an API, if the service reports it
	Version   int     // training step whose update made the weights that wrote it, if the policy is told (StepTracker)
	// Err means that this conversation cannot continue, for a reason of its own; the
	// other completions of the call are valid. It wraps ErrNoRoom if the conversation
	// has reached the model's context length, and ErrMessages if the model cannot read the prompt's messages.
	Err error
}

// Usage is the token usage and cost of a response, as counted by a service.
type Usage struct {
	PromptTokens, CompletionTokens int64   // reasoning is part of the completion
	Cost                           float64 // 0 without a price
}

// Add adds the usage v.
func (u *Usage) Add(v Usage) {
	u.PromptTokens += v.PromptTokens
	u.CompletionTokens += v.CompletionTokens
	u.Cost += v.Cost
}

// ErrNoRoom means that a conversation's context has no room for another response.
var ErrNoRoom = errors.New("no room for another response")

// ErrMessages means that a model cannot read messages: their text has a placeholder of images or their order does not
// fit the chat template, or the model reads no images, or none of that size, or a service refuses them.
var ErrMessages = errors.New("the model cannot read the messages")

// Image is an image as a policy stores it between generation and training.
type Image struct {
	Hash  [32]byte    // of its size and pixels: see HashImage
	Image image.Image // as the environment drew it
}
