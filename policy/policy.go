package policy

import (
	"context"
	"errors"
	"image"
)

// Role says who speaks in a Message.
type Role string

// The roles of a conversation.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one entry of a conversation. "<image>" in Text marks where each of
// the Images goes.
type Message struct {
	Role   Role
	Text   string
	Images []image.Image
}

// Policy writes responses.
type Policy interface {
	// Generate continues each of the prompts' conversations by one response and
	// returns one completion per prompt, in order. Rows are independent: what a
	// row samples depends on its own conversation and seed alone.
	Generate(ctx context.Context, prompts []Prompt, s Sampling) ([]Completion, error)
	// Forget ends conversations and frees what is kept for them. Unknown keys
	// are ignored.
	Forget(keys ...uint64)
}

// Counter is a policy that tells how long a text is before it reads it. Budgets
// need it.
type Counter interface {
	// Count returns the number of tokens that Generate would put before its
	// response to the prompt, image placeholders included. Policies that do not
	// tokenise may estimate it.
	Count(p Prompt) (int, error)
}

// Aligner is a policy that tells which part of a response each of its tokens is.
type Aligner interface {
	// Ends returns, for each token of a response, where in the response's text
	// what has been written up to and including it ends, in bytes. Positions beyond
	// the text stand for an end-of-turn token.
	Ends(tokens []int32) []int
}

// Prompt asks for one response.
type Prompt struct {
	// Conversation identifies the conversation. The first prompt with a key
	// opens it, later ones continue it: the policy keeps what was read and
	// written before, token by token, and nothing is tokenised twice.
	Conversation uint64
	// Messages are the messages since the last completion: system and user
	// when the conversation opens, user afterwards. The opening may repeat
	// earlier turns, the assistant's included. The last message is the user's.
	Messages []Message
	// Seed decides what is sampled. It is the only source of randomness.
	Seed uint64
	// MaxTokens limits the response; 0 means Sampling.MaxTokens.
	MaxTokens int
}

// Sampling says how tokens are chosen.
type Sampling struct {
	Temperature float64 // divides the logits; 0 takes the most likely token
	TopK        int     // keep the k most likely tokens; 0 keeps all
	TopP        float64 // keep the smallest set with this probability; 0 or 1 keeps all
	MinP        float64 // drop tokens below this share of the most likely one; 0 drops none
	MaxTokens   int     // longest response, end-of-turn token included
	// StopStrings end a response as soon as one of them is in its text. The tokens
	// stay, stop string included.
	StopStrings []string
	// Thinking limits what a response may think; the zero value does not.
	Thinking Thinking
}

// Thinking limits the tokens between two tags. When a response has written
// Tokens tokens behind the opening tag and not closed it, the closing tag is
// written for it, and it goes on from there.
type Thinking struct {
	Tokens int    // 0 is no limit
	Open   string // such as <think>; "" means that a response begins inside
	Close  string // such as </think>
}

// Stop says why a response ended.
type Stop string

// The causes of an ended response.
const (
	StopEnd    Stop = "end"    // the model wrote an end-of-turn token
	StopLength Stop = "length" // the limit was reached first
	StopString Stop = "string" // one of the stop strings was written
	StopFilter Stop = "filter" // the service refused to go on (API policies only)
	// StopVision means that the model wrote an image placeholder, for which there
	// is no image: the conversation cannot be used.
	StopVision Stop = "vision token"
)

// Completion is one response, and the context tokens that came before it.
//
// Context and Tokens together are exactly what the model read and wrote in this
// call; strung together over the calls of a conversation they are its training
// row. Policies behind an API may leave both empty and fill Text alone.
type Completion struct {
	Context  []int32   // tokens put before the response: template, messages, image placeholders
	Tokens   []int32   // response tokens, the end-of-turn token included when it was written
	LogProbs []float32 // of Tokens, from the plain softmax at the sampling temperature
	Forced   []int     // places in Tokens that Sampling.Thinking wrote; the policy did not choose them
	Text     string    // the response without end-of-turn token
	Stop     Stop
	Images   []Image // images of the context, in order
	Used     Used    // by policies behind an API, where the service tells
	// Err means that this conversation cannot go on, for a reason of its own; the
	// other completions of the call stand. It wraps ErrNoRoom when the
	// conversation has outgrown the model.
	Err error
}

// Used is what a service counted of a response, and what that cost.
type Used struct {
	PromptTokens, CompletionTokens int64   // reasoning is part of the completion
	Cost                           float64 // 0 without a price
}

// Add adds what was used beside it.
func (u *Used) Add(v Used) {
	u.PromptTokens += v.PromptTokens
	u.CompletionTokens += v.CompletionTokens
	u.Cost += v.Cost
}

// ErrNoRoom means that a conversation has no room left for another response.
var ErrNoRoom = errors.New("no room for another response")

// Image is a picture as a policy keeps it between generation and training.
type Image struct {
	Hash  [32]byte    // SHA-256 of size and RGB pixels
	Image image.Image // as the environment drew it
}
