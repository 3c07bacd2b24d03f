package rollout

import (
	"errors"
	"fmt"

	"vagen/env"
	"vagen/policy"
)

// Harness decides what the policy reads before each of its responses, and so how
// an episode becomes conversations. Each conversation is one training row.
//
// A harness remembers nothing: what it decides depends on the State alone. One
// value therefore serves all episodes of a batch, from several goroutines.
type Harness interface {
	// Splits reports whether an episode may take several conversations. Check
	// tells which estimators cannot be used then.
	Splits() bool
	// Next says what to ask the policy for. An error ends the episode: ErrNoRoom
	// of package policy after a turn as truncated, which can be learned from,
	// everything else as unusable.
	Next(s *State) (Ask, error)
}

// Ask is a request for one response.
type Ask struct {
	// Open starts a new conversation; the one before it is over. Without it,
	// Messages go on with the current conversation.
	Open     bool
	Messages []policy.Message // what the policy reads; the last one is the user's
	// MaxTokens limits the response further than the player's Sampling does; 0
	// leaves it at that.
	MaxTokens int
	// Summary says that the response closes the conversation: the environment does
	// not see it, it is no turn of the episode, and the next Ask must open. The
	// policy is trained on it like on any response, with a reward of 0.
	Summary bool
}

// State is an episode in play, as its harness sees it. Lengths are in tokens, as
// the policy counts them; a policy that reports no tokens is asked to estimate
// them where a Budget is in force, otherwise they are 0.
type State struct {
	System env.Observation // the environment's instructions; empty without any
	Now    env.Observation // what no turn has answered yet
	Turns  []Turn          // played so far, in order; not to be changed
	Budget Budget          // the player's

	Conversations int    // opened so far
	Closed        bool   // the last response was a summary
	Summary       string // that response
	Opening       int    // length of what the current conversation opened with
	Spent         int    // length of all that came after it: the response region
	Growth        int    // the last turn's part of Spent, 0 if that turn opened the conversation

	count func(Ask) (int, error)
}

// Going reports whether there is a conversation to go on with.
func (s *State) Going() bool { return s.Conversations > 0 && !s.Closed }

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
func (s *State) Count(a Ask) (int, error) {
	if s.count == nil {
		return 0, ErrNoCounter
	}
	return s.count(a)
}

// Open asks for the first response of a new conversation, which may fill the
// whole response region.
func (s *State) Open(messages ...policy.Message) Ask {
	return Ask{Open: true, Messages: messages, MaxTokens: s.Budget.Response}
}

// Instructed puts the environment's instructions, if there are any, before the
// messages.
func (s *State) Instructed(messages ...policy.Message) []policy.Message {
	if s.System.Text == "" {
		return messages
	}
	return append([]policy.Message{message(policy.System, s.System)}, messages...)
}

// Observed is what the environment shows, as the user's message.
func (s *State) Observed() policy.Message { return message(policy.User, s.Now) }

func message(role policy.Role, o env.Observation) policy.Message {
	return policy.Message{Role: role, Text: o.Text, Images: o.Images}
}

// Sentinels of harnesses and budgets.
var (
	// ErrNoProgress means that conversations are full as soon as they open.
	ErrNoProgress = errors.New("compaction makes no progress")
	// ErrOpening means that a conversation would open with more than Budget.Prompt.
	ErrOpening = errors.New("a conversation opens with too much")
	// ErrObservation means that no part of an observation fits Budget.Observation.
	ErrObservation = errors.New("an observation does not fit")
	// ErrNoCounter means that a policy cannot tell how long a text is.
	ErrNoCounter = errors.New("the policy does not count tokens")
)

// Concat plays an episode as one conversation, which is one row. It is what a
// Player without a Harness uses.
type Concat struct{}

// Splits implements Harness: never.
func (Concat) Splits() bool { return false }

// Next implements Harness. The episode ends when there is no room for a response.
func (Concat) Next(s *State) (Ask, error) {
	if !s.Going() {
		return s.Open(s.Instructed(s.Observed())...), nil
	}
	return s.goOn()
}

// goOn asks for the next response of the current conversation.
func (s *State) goOn() (Ask, error) {
	a := Ask{Messages: []policy.Message{s.Observed()}}
	if s.Budget.Response == 0 {
		return a, nil
	}
	pending, err := s.Count(a)
	if err != nil {
		return a, err
	}
	if a.MaxTokens = s.Budget.room(s.Spent, pending, 0); a.MaxTokens == 0 {
		return a, fmt.Errorf("%w: %d tokens of %d are used and %d more to be read", policy.ErrNoRoom, s.Spent, s.Budget.Response, pending)
	}
	return a, nil
}

// NoConcat opens a conversation for every turn: the policy reads the
// instructions and what the environment shows now, and nothing of what happened
// before. Every turn is a row.
type NoConcat struct{}

// Splits implements Harness: always.
func (NoConcat) Splits() bool { return true }

// Next implements Harness.
func (NoConcat) Next(s *State) (Ask, error) { return s.Open(s.Instructed(s.Observed())...), nil }

// Window lets the policy read the last Size turns beside what the environment
// shows now, as the full VAGEN system does when it generates. Until the first
// turn is left out an episode is one conversation; from then on every turn opens
// one of its own, with the turns before it as context.
//
// The full system then trains on all turns as one row, which the policy never
// read. Here the rows are what it read and wrote, so there are several.
type Window struct {
	Size int // turns to remember; 0 is NoConcat
}

// Splits implements Harness: always, since it is not known how long episodes are.
func (Window) Splits() bool { return true }

// Next implements Harness.
func (w Window) Next(s *State) (Ask, error) {
	if s.Going() && len(s.Turns) <= w.Size {
		return s.goOn()
	}
	t := Transcript{System: s.System, Turns: s.Turns, Now: &s.Now, Last: &w.Size}
	return s.Open(t.Messages()...), nil
}
