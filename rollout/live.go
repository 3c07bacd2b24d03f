package rollout

import (
	"errors"
	"fmt"
	"time"

	"vagen/env"
	"vagen/internal/rng"
	"vagen/mask"
	"vagen/policy"
)

// live is an episode in play.
type live struct {
	*Trajectory
	batch uint64 // seed of the batch
	seed  uint64 // of the episode's sampling
	env   env.Env
	busy  time.Duration // that the environment took so far
	away  bool          // the environment is at work
	over  bool
	again bool // it is over and to be played again

	sys   env.Observation
	shown env.Observation
	cut   bool // shown is not all that the environment showed
	fresh bool // shown has not been held against the budget

	// Of the current conversation.
	key     uint64
	asked   Ask // the last request
	said    int // responses
	closed  bool
	opening int // tokens
	spent   int
	growth  int

	total int // responses of the episode
}

func (l *live) fail(end End, err error) {
	l.End, l.Err, l.over = end, err, true
}

// next has the harness say what the policy is asked. It returns false when the
// episode ends instead.
func (p *Player) next(l *live) (policy.Prompt, bool) {
	a, err := p.ask(l, p.state(l))
	if err != nil {
		l.refuse(err)
		return policy.Prompt{}, false
	}
	if a.Open {
		p.converse(l)
	}
	l.asked = a
	return l.prompt(a), true
}

// state is what a harness sees of an episode.
func (p *Player) state(l *live) *State {
	s := &State{
		System: l.sys, Now: l.shown, Turns: l.Turns, Budget: p.Budget, Conversations: len(l.Rows),
		Closed: l.closed, Opening: l.opening, Spent: l.spent, Growth: l.growth,
	}
	s.Budget.perTurn = l.longest(p)
	if counter, ok := p.Policy.(policy.Counter); ok {
		s.count = func(a Ask) (int, error) { return counter.Count(l.prompt(a)) }
	}
	if l.closed {
		s.Summary = l.Rows[len(l.Rows)-1].Summary
	}
	return s
}

// harness is the one that asks.
func (p *Player) harness() Harness {
	if p.Harness == nil {
		return Concat{}
	}
	return p.Harness
}

// ask has the harness decide, within the budget.
func (p *Player) ask(l *live, s *State) (Ask, error) {
	if err := p.fit(l, s); err != nil {
		return Ask{}, err
	}
	h := p.harness()
	a, err := protected(h, s)
	if err != nil {
		return a, err
	}
	switch {
	case len(a.Messages) == 0 || a.Messages[len(a.Messages)-1].Role != policy.User:
		return a, fmt.Errorf("%w: it asks without a message of the user's at the end", ErrHarness)
	case a.MaxTokens < 0:
		return a, fmt.Errorf("%w: it asks for a response of %d tokens", ErrHarness, a.MaxTokens)
	case !a.Open && !s.Going():
		return a, fmt.Errorf("%w: it goes on with a conversation that is not open", ErrHarness)
	case a.Open && a.Summary:
		return a, fmt.Errorf("%w: it sums up a conversation that has not begun", ErrHarness)
	}
	if a.Open && p.Budget.Prompt > 0 {
		n, err := s.Count(a)
		if err != nil {
			return a, err
		}
		if n > p.Budget.Prompt {
			if a, err = p.shorten(l, s, h, n); err != nil {
				return a, err
			}
		}
	}
	if err := p.images(l, a); err != nil {
		return a, err
	}
	if l.MaxTokens > 0 && (a.MaxTokens == 0 || a.MaxTokens > l.MaxTokens) {
		a.MaxTokens = l.MaxTokens
	}
	if most := p.Sampling.MaxTokens; most > 0 && a.MaxTokens >= most {
		a.MaxTokens = 0
	}
	return a, nil
}

// shorten cuts the observation that a conversation opens with until the opening, of
// n tokens, fits.
func (p *Player) shorten(l *live, s *State, h Harness, n int) (a Ask, err error) {
	if p.Budget.Cut == CutNothing {
		return a, fmt.Errorf("%w: %d tokens, Budget.Prompt is %d", ErrOpening, n, p.Budget.Prompt)
	}
	part := keep
	if p.Budget.Cut == CutLeft {
		part = keepLast
	}
	o, _, err := cutTo(l.shown, p.Budget.Prompt, part, func(o env.Observation) (int, error) {
		s.Now = o
		var err error
		if a, err = protected(h, s); err != nil {
			return 0, err
		}
		return s.Count(a)
	})
	if errors.Is(err, ErrObservation) {
		return a, fmt.Errorf("%w: %d tokens, Budget.Prompt is %d, and there is nothing left to cut", ErrOpening, n, p.Budget.Prompt)
	}
	if err != nil {
		return a, err
	}
	l.shown, l.cut, s.Now = o, true, o
	return protected(h, s)
}

// images holds the pictures of a conversation against the budget.
func (p *Player) images(l *live, a Ask) error {
	if p.Budget.Images == 0 {
		return nil
	}
	n := 0
	if !a.Open && len(l.Rows) > 0 {
		n = len(l.Rows[len(l.Rows)-1].Images)
	}
	for _, m := range a.Messages {
		n += len(m.Images)
	}
	if n > p.Budget.Images {
		return fmt.Errorf("%w: %d pictures, Budget.Images is %d", policy.ErrNoRoom, n, p.Budget.Images)
	}
	return nil
}

// longest is the longest response of a turn in tokens; 0 is no limit.
func (l *live) longest(p *Player) int {
	if most := p.Sampling.MaxTokens; l.MaxTokens == 0 || most > 0 && most < l.MaxTokens {
		return most
	}
	return l.MaxTokens
}

// ErrHarness means that a harness broke its contract.
var ErrHarness = errors.New("harness broke its contract")

// protected asks a harness and turns its panic into an error.
func protected(h Harness, s *State) (a Ask, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: it panicked: %v", ErrHarness, r)
		}
	}()
	return h.Next(s)
}

// refuse ends an episode that a harness or a budget does not let go on.
func (l *live) refuse(err error) {
	err = fmt.Errorf("rollout: before turn %d: %w", len(l.Turns), err)
	switch {
	case errors.Is(err, policy.ErrNoRoom) && len(l.Turns) > 0:
		l.fail(EndNoRoom, nil)
	case errors.Is(err, ErrNoProgress):
		l.fail(EndNoProgress, err)
	case errors.Is(err, ErrOpening), errors.Is(err, ErrObservation), errors.Is(err, policy.ErrNoRoom):
		l.fail(EndBudget, err)
	default:
		l.fail(EndHarness, err)
	}
}

// prompt is what the policy is given. An opening that is only counted has a key
// of its own, which no conversation has.
func (l *live) prompt(a Ask) policy.Prompt {
	q := policy.Prompt{Conversation: l.key, Messages: a.Messages, MaxTokens: a.MaxTokens, Seed: rng.Derive(l.seed, rng.Sample, uint64(l.total))}
	if a.Open && l.said > 0 {
		q.Conversation = 0
	}
	return q
}

// converse opens a conversation, and has the policy forget the one before it.
func (p *Player) converse(l *live) {
	if len(l.Rows) > 0 {
		p.Policy.Forget(l.key)
		p.keys++
		l.key = p.keys
	}
	l.Rows = append(l.Rows, Row{})
	l.said, l.closed, l.opening, l.spent, l.growth = 0, false, 0, 0, 0
}

// record appends a completion to the episode's row.
func (p *Player) record(l *live, c policy.Completion) {
	switch {
	case c.Err != nil && errors.Is(c.Err, policy.ErrNoRoom) && len(l.Turns) > 0:
		l.fail(EndNoRoom, nil)
		return
	case c.Err != nil:
		l.fail(EndPolicy, c.Err)
		return
	case len(c.Tokens) == 0 && c.Text == "":
		l.fail(EndEmpty, errors.New("rollout: the policy wrote an empty response"))
		return
	}
	row := &l.Rows[len(l.Rows)-1]
	if err := row.append(c, l.said, l.asked.Summary); err != nil {
		l.fail(EndPolicy, fmt.Errorf("rollout: turn %d: %w", len(l.Turns), err))
		return
	}
	p.measure(l, c)
	l.said++
	l.total++
	if l.asked.Summary {
		row.Summary, l.closed = c.Text, true
	} else {
		l.Turns = append(l.Turns, Turn{Row: len(l.Rows) - 1, Observation: l.shown, Cut: l.cut, Response: c.Text, Stop: c.Stop})
	}
	if c.Stop == policy.StopVision {
		l.fail(EndVision, errors.New("rollout: the policy wrote an image placeholder"))
	}
}

// measure adds a completion to the lengths of the conversation.
func (p *Player) measure(l *live, c policy.Completion) {
	read, wrote := len(c.Context), len(c.Tokens)
	if counter, ok := p.Policy.(policy.Counter); ok && wrote == 0 && (p.Budget.on() || p.Harness != nil) {
		// What cannot be estimated counts as nothing: the policy itself ends a
		// conversation that outgrows it.
		read, _ = counter.Count(l.prompt(l.asked))
		wrote, _ = counter.Count(policy.Prompt{Messages: []policy.Message{{Role: policy.Assistant, Text: c.Text}}})
	}
	if l.said == 0 {
		l.opening, l.spent, l.growth = read, wrote, 0
	} else {
		l.spent, l.growth = l.spent+read+wrote, read+wrote
	}
}

// append adds a completion's tokens to the row, which has so many responses. A
// conversation has tokens in all of its responses or in none.
func (row *Row) append(c policy.Completion, said int, summary bool) error {
	if has := len(c.Tokens) > 0; said > 0 && has != (row.Turns() > 0) {
		return fmt.Errorf("the policy gave %d tokens, after %d turns of which %d have tokens", len(c.Tokens), said, row.Turns())
	} else if !has {
		return nil
	}
	if len(c.LogProbs) != len(c.Tokens) {
		return fmt.Errorf("the policy gave %d log-probs for %d tokens", len(c.LogProbs), len(c.Tokens))
	}
	for i, x := range c.LogProbs {
		if !finite(float64(x)) {
			return fmt.Errorf("the policy gave the log-prob %v for token %d, must be finite", x, i)
		}
	}
	forced, err := runs(c.Forced, len(c.Tokens))
	if err != nil {
		return err
	}
	kind, write := mask.Observation, row.AppendResponse
	if row.Turns() == 0 {
		kind = mask.Prompt
	}
	if summary {
		write = row.AppendSummary
	}
	if err := errors.Join(row.AppendContext(kind, c.Context...), write(c.Tokens...)); err != nil {
		return err
	}
	start := row.Len() - len(c.Tokens)
	for _, run := range forced {
		if err := row.AddSpan(mask.Forced, start+run[0], start+run[1]); err != nil {
			return err
		}
	}
	row.LogProbs = append(append(row.LogProbs, make([]float32, len(c.Context))...), c.LogProbs...)
	row.Images = append(row.Images, c.Images...)
	return nil
}

// runs joins places in a response of n tokens to stretches [first, one past the last).
func runs(places []int, n int) ([][2]int, error) {
	var out [][2]int
	for k, at := range places {
		if at < 0 || at >= n || k > 0 && at <= places[k-1] {
			return nil, fmt.Errorf("the policy says that token %d of %d was forced, after %v; places must increase and be in the response", at, n, places[:k])
		}
		if last := len(out) - 1; last >= 0 && out[last][1] == at {
			out[last][1]++
		} else {
			out = append(out, [2]int{at, at + 1})
		}
	}
	return out, nil
}
