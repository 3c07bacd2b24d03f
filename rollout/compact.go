package rollout

import (
	"cmp"
	"fmt"

	"vagen/env"
	"vagen/policy"
)

// Compact plays an episode as one conversation until that is full. Its last message
// then asks the policy for a summary; the next conversation opens with the
// instructions, the summary and the current observation. The policy is trained on
// summaries as on actions: a summary is part of its row, with a reward of 0.
//
// A conversation is full when the response region has no room for the next
// observation, a response, the request for a summary and the summary; or when its
// length plus another turn like the last would reach Total. Two conversations in a
// row that are full after their first turn end the episode with ErrNoProgress.
//
// The last response before a summary may use the room of the observation after it,
// so a row may be longer than the response region by one observation.
type Compact struct {
	Total   int    // length at which a conversation is full; 0 is no limit but the response region
	Summary int    // longest summary in tokens; must be positive
	Request string // the message that asks for a summary; "" is DefaultRequest
	Heading string // put before the summary; "" is DefaultHeading
}

// The default messages of a Compact.
const (
	DefaultRequest = "This conversation is almost full. Write down, briefly, everything that is needed to go on without it: " +
		"the goal, what has been done and learned so far, where things are now, and what to do next. Do not act in this message."
	DefaultHeading = "Your notes on what happened so far: "
)

// Splits implements Harness: an episode may have several conversations.
func (Compact) Splits() bool { return true }

// Next implements Harness.
func (c Compact) Next(s *State) (Request, error) {
	if s == nil {
		return Request{}, errNoState
	}
	if !s.HasOpenConversation() {
		return s.Open(s.WithInstructions(c.opening(s))...), nil
	}
	request := Request{Summary: true, Messages: []policy.Message{c.SummaryRequest()}, MaxTokens: c.Summary}
	a := Request{Messages: []policy.Message{s.ObservationMessage()}}
	full := c.Total > 0 && s.Opening+s.Spent+s.Growth >= c.Total
	if s.Budget.Response > 0 {
		asking, err := s.Count(request)
		if err != nil {
			return a, err
		}
		pending, err := s.Count(a)
		if err != nil {
			return a, err
		}
		reserve := asking + c.Summary
		full = full || s.Budget.room(s.Spent, pending, reserve) == 0
		a.MaxTokens = s.Budget.Response - s.Spent - reserve
	}
	if !full {
		return a, nil
	}
	now := s.Conversations - 1
	if turns := s.TurnsOf(now); turns <= 1 && now > 0 && s.TurnsOf(now-1) <= 1 {
		return a, fmt.Errorf("%w: conversations %d and %d are full after one turn each", ErrNoProgress, now-1, now)
	}
	return request, nil
}

// opening returns the opening message of a conversation, after the instructions.
func (c Compact) opening(s *State) policy.Message {
	m := s.ObservationMessage()
	if s.Closed {
		m.Text = cmp.Or(c.Heading, DefaultHeading) + env.WithoutMarks(s.Summary) + "\n\n" + m.Text
	}
	return m
}

// SummaryRequest returns the message that asks for a summary.
func (c Compact) SummaryRequest() policy.Message {
	return policy.Message{Role: policy.User, Text: cmp.Or(c.Request, DefaultRequest)}
}

// DefaultSummary returns the default length of summaries: a quarter of Total, at
// most the longest response of a turn, which it is without a Total.
func DefaultSummary(total, perTurn int) int {
	if total <= 0 {
		return perTurn
	}
	return max(1, min(perTurn, total/4))
}
