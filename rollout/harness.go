package rollout

import (
	"errors"
	"fmt"

	"vagen/env"
	"vagen/policy"
)

// Harness decides what the policy reads before each of its responses, and so
// how an episode is split into conversations. Each conversation is one training row.
//
// A harness has no state of its own: its decision depends on the State alone. One
// value is used for all episodes of a batch, by several goroutines at once.
type Harness interface {
	// Splits reports whether an episode may have several conversations. Check
	// reports which estimators cannot be used then.
	Splits() bool
	// Next returns the next request for the policy. An error ends the episode:
	// policy.ErrNoRoom after at least one turn as truncated, which is usable for
	// training, every other error as unusable.
	Next(s *State) (Request, error)
}

var (
	_ Harness = Concat{}
	_ Harness = NoConcat{}
	_ Harness = Window{}
	_ Harness = Compact{}
)

// Request is a request for one response.
type Request struct {
	// Open starts a new conversation and closes the previous one. If false,
	// Messages continue the current conversation.
	Open     bool
	Messages []policy.Message // what the policy reads; the last one is the user's
	// MaxTokens limits the response in addition to the player's Sampling; 0 is no
	// further limit.
	MaxTokens int
	// Summary marks a request whose response closes the conversation: the
	// environment does not see the response, it is not a turn of the episode, and the
	// next Request must have Open set. The policy is trained on it as on any response,
	// with a reward of 0.
	Summary bool
}

// State is a running episode as its harness sees it. Lengths are in tokens, as the
// policy counts them. Those of a policy that reports no tokens are its estimates if a
// Budget is set, otherwise 0.
type State struct {
	System      env.Observation // the environment's instructions; empty without any
	Observation env.Observation // the observation that the next turn answers
	Turns       []Turn          // played so far, in order; must not be changed
	Budget      Budget          // the player's

	Conversations int    // opened so far
	Closed        bool   // the last response was a summary
	Summary       string // that response
	Opening       int    // length of the current conversation's opening messages
	Spent         int    // length of everything after them: the response region in use
	Growth        int    // the last turn's part of Spent; 0 if that turn opened the conversation

	count func(Request) (int, error)
}

// HasOpenConversation reports whether a conversation is open that can be continued.
func (s *State) HasOpenConversation() bool { return s.Conversations > 0 && !s.Closed }

// TurnsOf counts the turns of a conversation.
func (s *State) TurnsOf(conversation int) int {
	n := 0
	for _, t := range s.Turns {
		if t.Row == conversation {
			n++
		}
	}
	return n
}

// Count returns how many tokens the policy would read before it answers.
func (s *State) Count(a Request) (int, error) {
	if s.count == nil {
		return 0, ErrNoCounter
	}
	return s.count(a)
}

// Open returns a request for the first response of a new conversation, which may
// fill the whole response region.
func (s *State) Open(messages ...policy.Message) Request {
	return Request{Open: true, Messages: messages, MaxTokens: s.Budget.Response}
}

// WithInstructions returns the messages with the environment's instructions, if there are
// any, before them.
func (s *State) WithInstructions(messages ...policy.Message) []policy.Message {
	if s.System.Text == "" {
		return messages
	}
	return append([]policy.Message{message(policy.System, s.System)}, messages...)
}

// ObservationMessage returns the current observation as the user's message.
func (s *State) ObservationMessage() policy.Message { return message(policy.User, s.Observation) }

func message(role policy.Role, o env.Observation) policy.Message {
	return policy.Message{Role: role, Text: o.Text, Images: o.Images}
}

// Sentinels of harnesses and budgets.
var (
	// ErrNoProgress means that conversations are full right after they open.
	ErrNoProgress = errors.New("compaction makes no progress")
	// ErrOpening means that the opening of a conversation is longer than Budget.Prompt.
	ErrOpening = errors.New("the opening of a conversation is too long")
	// ErrObservation means that no part of an observation fits Budget.Observation.
	ErrObservation = errors.New("an observation is too long")
	// ErrNoCounter means that a policy is not a policy.Counter.
	ErrNoCounter = errors.New("the policy does not count tokens")

	errNoState = errors.New("rollout: harness: the state is nil, must be that of an episode")
)

// Concat plays an episode as one conversation, which is one row. It is the default
// harness of a Player.
type Concat struct{}

// Splits implements Harness: never.
func (Concat) Splits() bool { return false }

// Next implements Harness. The episode ends when there is no room for a response.
func (Concat) Next(s *State) (Request, error) {
	if s == nil {
		return Request{}, errNoState
	}
	if !s.HasOpenConversation() {
		return s.Open(s.WithInstructions(s.ObservationMessage())...), nil
	}
	return s.continueConversation()
}

// continueConversation asks for the next response of the current conversation.
func (s *State) continueConversation() (Request, error) {
	a := Request{Messages: []policy.Message{s.ObservationMessage()}}
	if s.Budget.Response == 0 {
		return a, nil
	}
	pending, err := s.Count(a)
	if err != nil {
		return a, err
	}
	if a.MaxTokens = s.Budget.room(s.Spent, pending, 0); a.MaxTokens == 0 {
		return a, fmt.Errorf("%w: %d of %d tokens are used, the next observation needs %d", policy.ErrNoRoom, s.Spent,
			s.Budget.Response, pending)
	}
	return a, nil
}

// NoConcat opens a conversation for every turn: the policy reads the instructions
// and the current observation, and no earlier turns. Every turn is a row.
type NoConcat struct{}

// Splits implements Harness: always.
func (NoConcat) Splits() bool { return true }

// Next implements Harness.
func (NoConcat) Next(s *State) (Request, error) {
	if s == nil {
		return Request{}, errNoState
	}
	return s.Open(s.WithInstructions(s.ObservationMessage())...), nil
}

// Window lets the policy read the last Size turns and the current observation, as
// the full VAGEN system does when it generates. As long as no turn is left out, an
// episode is one conversation; after that every turn opens its own conversation, with
// the turns before it as context.
//
// The full system trains on all turns as one row, which the policy never read as a
// whole. Here the rows hold what the policy read and wrote, so there are several.
type Window struct {
	Size int // number of earlier turns to read; 0 is NoConcat
}

// Splits implements Harness: always, since the length of episodes is not known.
func (Window) Splits() bool { return true }

// Next implements Harness.
func (w Window) Next(s *State) (Request, error) {
	if s == nil {
		return Request{}, errNoState
	}
	if s.HasOpenConversation() && len(s.Turns) <= w.Size {
		return s.continueConversation()
	}
	t := Transcript{System: s.System, Turns: s.Turns, Observation: &s.Observation, Last: &w.Size}
	return s.Open(t.Messages()...), nil
}
