package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"vagen/env"
	"vagen/internal/floats"
	"vagen/internal/rng"
	"vagen/mask"
	"vagen/policy"
)

// live is the state of an episode while it is played.
type live struct {
	*Trajectory
	batch   uint64 // seed of the batch
	seed    uint64 // seed of the episode's sampling
	env     env.Env
	busy    time.Duration // time spent in the environment so far
	running bool          // a call of the environment is running
	ended   bool          // the episode has ended
	retry   bool          // the episode has ended and will be played again
	// followed says that the episode has ended, and that Player.Next has not been asked yet.
	followed bool

	restart bool    // a further attempt has to open the environment
	from    *branch // where a recorded episode is continued; nil for others
	trial   bool    // the environment is only tried
	resumes bool    // the next response is the first one after the branch point

	sys         env.Observation
	observation env.Observation
	cut         bool // observation was cut to the budget
	unchecked   bool // observation has not been checked against the budget

	// Of a Caller.
	refused error           // why the last call got no response
	prefix  policy.Recorded // with which the row of the current call begins
	lost    bool            // the policy may not have the current conversation

	// Of the current conversation.
	row       int
	key       uint64
	request   Request // the last request
	responses int     // number of responses
	closed    bool
	opening   int // State.Opening
	spent     int // State.Spent
	growth    int // State.Growth

	total int // number of responses of the episode
}

func (l *live) fail(end End, err error) {
	l.End, l.Err, l.ended = end, err, true
}

// scale scales a turn's reward and fails the episode if rows cannot hold the result.
func (l *live) scale(turn int) {
	t := &l.Turns[turn]
	t.Reward = l.scaled(t.Reward)
	if err := checkReward(t.Reward); err != nil && l.Err == nil {
		t.Reward = nil // what is not finite cannot be stored either
		l.fail(EndContract, fmt.Errorf("rollout: turn %d with the reward scale %v: %w", turn, cmp.Or(l.RewardScale, 1), err))
	}
}

// next returns the prompt that the harness makes for the policy, or false when the
// episode ends instead.
func (p *Player) next(l *live) (policy.Prompt, bool) {
	if c, ok := l.env.(Caller); ok {
		return p.nextCall(l, c)
	}
	if l.resumes {
		if err := p.resume(l, l.from.before()); err != nil {
			l.fail(EndPolicy, err)
			return policy.Prompt{}, false
		}
	}
	a, err := p.request(l, p.state(l))
	if err != nil {
		l.failHarness(err)
		return policy.Prompt{}, false
	}
	if a.Open {
		p.openConversation(l)
	}
	l.request = a
	if l.resumes {
		return p.rejoin(l)
	}
	return l.prompt(a), true
}

// state returns the episode's state as the harness sees it.
func (p *Player) state(l *live) *State {
	s := &State{
		System: l.sys, Observation: l.observation, Turns: l.Turns, Budget: p.budget(l), Conversations: len(l.Rows),
		Closed: l.closed, Opening: l.opening, Spent: l.spent, Growth: l.growth,
	}
	s.Budget.perTurn = l.longest(p)
	if counter, ok := policy.As[policy.Counter](p.Policy); ok {
		s.count = func(a Request) (int, error) { return counter.Count(l.prompt(a)) }
	}
	if l.closed {
		s.Summary = l.Rows[len(l.Rows)-1].Summary
	}
	return s
}

// harness returns the player's harness or the default.
func (p *Player) harness() Harness {
	if p.Harness == nil {
		return Concat{}
	}
	return p.Harness
}

// request gets the harness's next request and applies the budget to it.
func (p *Player) request(l *live, s *State) (Request, error) {
	if err := p.fitObservation(l, s); err != nil {
		return Request{}, err
	}
	h := p.harness()
	a, err := callHarness(h, s)
	if err != nil {
		return a, err
	}
	switch {
	case len(a.Messages) == 0 || a.Messages[len(a.Messages)-1].Role != policy.User:
		return a, fmt.Errorf("%w: the last message of its request must be the user's", ErrHarness)
	case a.MaxTokens < 0:
		return a, fmt.Errorf("%w: MaxTokens of its request is %d, must not be negative", ErrHarness, a.MaxTokens)
	case !a.Open && !s.HasOpenConversation():
		return a, fmt.Errorf("%w: its request continues a conversation, but none is open", ErrHarness)
	case a.Open && a.Summary:
		return a, fmt.Errorf("%w: its request both opens a conversation and asks for a summary", ErrHarness)
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
	a.MaxTokens = p.limited(l, a.MaxTokens)
	return a, nil
}

// limited is a limit on a response, with that of its episode; 0 if none is below the player's.
func (p *Player) limited(l *live, most int) int {
	if l.MaxTokens > 0 && (most == 0 || most > l.MaxTokens) {
		most = l.MaxTokens
	}
	if limit := p.Sampling.MaxTokens; limit > 0 && most >= limit {
		return 0
	}
	return most
}

// shorten cuts the observation that a conversation opens with until the opening, of
// n tokens, fits.
func (p *Player) shorten(l *live, s *State, h Harness, n int) (a Request, err error) {
	if p.Budget.Cut == CutNothing {
		return a, fmt.Errorf("%w: %d tokens, Budget.Prompt allows %d", ErrOpening, n, p.Budget.Prompt)
	}
	part := keepFirst
	if p.Budget.Cut == CutLeft {
		part = keepLast
	}
	o, _, err := cutTo(l.observation, p.Budget.Prompt, part, func(o env.Observation) (int, error) {
		s.Observation = o
		var err error
		if a, err = callHarness(h, s); err != nil {
			return 0, err
		}
		return s.Count(a)
	})
	if errors.Is(err, ErrObservation) {
		return a, fmt.Errorf("%w: %d tokens, Budget.Prompt allows %d, and the text without the observation is longer already",
			ErrOpening, n, p.Budget.Prompt)
	}
	if err != nil {
		return a, err
	}
	l.observation, l.cut, s.Observation = o, true, o
	return callHarness(h, s)
}

// images checks the number of images of a conversation against the budget.
func (p *Player) images(l *live, a Request) error {
	if p.Budget.Images == 0 {
		return nil
	}
	n := len(l.prefix.Images)
	if !a.Open {
		n += len(l.Rows[l.row].Images)
	}
	for _, m := range a.Messages {
		n += len(m.Images)
	}
	if n > p.Budget.Images {
		return fmt.Errorf("%w: %d images, Budget.Images allows %d", policy.ErrNoRoom, n, p.Budget.Images)
	}
	return nil
}

// longest is the limit on a turn's response in tokens; 0 is no limit.
func (l *live) longest(p *Player) int {
	if most := p.Sampling.MaxTokens; l.MaxTokens == 0 || most > 0 && most < l.MaxTokens {
		return most
	}
	return l.MaxTokens
}

// ErrHarness means that a harness broke its contract.
var ErrHarness = errors.New("harness broke its contract")

// callHarness calls a harness and converts its panic to an error.
func callHarness(h Harness, s *State) (a Request, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: it panicked: %v", ErrHarness, r)
		}
	}()
	return h.Next(s)
}

// failHarness ends an episode that a harness or a budget does not allow to continue.
func (l *live) failHarness(err error) {
	err = fmt.Errorf("rollout: before turn %d: %w", len(l.Turns), err)
	switch {
	case l.resumes: // the recorded episode had this turn
		l.fail(EndReplay, err)
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

// prompt converts a request to a prompt of the policy. An opening that is only
// counted has the key 0, which no conversation has.
func (l *live) prompt(a Request) policy.Prompt {
	q := policy.Prompt{Conversation: l.key, Messages: a.Messages, MaxTokens: a.MaxTokens,
		Seed: rng.Derive(l.seed, rng.Sample, uint64(l.total))}
	if a.Open && l.responses > 0 {
		q.Conversation = 0
	}
	return q
}

// openConversation opens a conversation and makes the policy forget the previous one.
func (p *Player) openConversation(l *live) {
	if len(l.Rows) > 0 {
		p.Policy.Forget(l.key)
		l.key = p.newKey()
	}
	l.row, l.lost = len(l.Rows), false
	l.Rows = append(l.Rows, Row{})
	l.responses, l.closed, l.opening, l.spent, l.growth = 0, false, 0, 0, 0
}

// record appends a completion to the episode's row. An empty text is a response like any other,
// of a policy with tokens and of one without: the environment reads it, and it lacks the format.
func (p *Player) record(l *live, c policy.Completion) {
	resumed := l.resumes
	if l.resumes = false; resumed {
		c.Context, c.Images = l.from.context()
	}
	_, calls := l.env.(Caller)
	switch {
	case calls && ofCall(c.Err):
		l.refuse(c.Err)
		return
	case c.Err != nil && errors.Is(c.Err, policy.ErrNoRoom) && len(l.Turns) > 0 && !resumed:
		l.fail(EndNoRoom, nil)
		return
	case c.Err != nil:
		l.fail(EndPolicy, c.Err)
		return
	case len(c.Tokens) == 0 && len(c.Context) > 0 && c.Text == "":
		l.fail(EndEmpty, errors.New("rollout: the policy returned no token, not even one that ends the turn"))
		return
	}
	if len(l.prefix.Tokens) > 0 {
		c.Context, c.Images = slices.Concat(l.prefix.Tokens, c.Context), slices.Concat(l.prefix.Images, c.Images)
		l.prefix = policy.Recorded{}
	}
	row := &l.Rows[l.row]
	if err := row.append(c, l.responses, l.request.Summary); err != nil {
		l.fail(EndPolicy, fmt.Errorf("rollout: turn %d: %w", len(l.Turns), err))
		return
	}
	p.measure(l, c)
	if c.Reasoning != "" && !l.request.Summary {
		c.Text = env.ParserOf(l.env).Rejoin(c.Reasoning, c.Text)
	}
	l.responses++
	l.total++
	if l.request.Summary {
		row.Summary, l.closed = c.Text, true
	} else {
		l.Turns = append(l.Turns, Turn{Row: l.row, Observation: l.observation, Cut: l.cut, Response: c.Text, Stop: c.Stop,
			Version: c.Version})
	}
	if c.Stop == policy.StopVision {
		l.fail(EndVision, errors.New("rollout: the policy wrote an image placeholder"))
	}
}

// measure adds the length of a completion to those of the conversation.
func (p *Player) measure(l *live, c policy.Completion) {
	read, wrote := len(c.Context), len(c.Tokens)
	if counter, ok := policy.As[policy.Counter](p.Policy); ok && wrote == 0 && (p.Budget.on() || p.Harness != nil) {
		// A length that cannot be estimated counts as 0: the policy itself ends a
		// conversation that exceeds its context.
		read, _ = counter.Count(l.prompt(l.request))
		wrote, _ = counter.Count(policy.Prompt{Messages: []policy.Message{{Role: policy.Assistant, Text: c.Text}}})
	}
	if l.responses == 0 {
		l.opening, l.spent, l.growth = read, wrote, 0
	} else {
		l.spent, l.growth = l.spent+read+wrote, read+wrote
	}
}

// append adds a completion's tokens to the row; responses is the number of its responses
// so far. Either all responses of a conversation have tokens, or none has.
func (row *Row) append(c policy.Completion, responses int, summary bool) error {
	if has := len(c.Tokens) > 0; responses > 0 && has != (row.Turns() > 0) {
		return fmt.Errorf("the policy returned %d tokens after %d responses, %d of them with tokens; either all or none must have tokens", len(c.Tokens), responses, row.Turns())
	} else if !has {
		return nil
	}
	if len(c.LogProbs) != len(c.Tokens) {
		return fmt.Errorf("the policy returned %d log-probs for %d tokens", len(c.LogProbs), len(c.Tokens))
	}
	for i, x := range c.LogProbs {
		if !floats.Finite(x) {
			return fmt.Errorf("the policy returned the log-prob %v for token %d, must be finite", x, i)
		}
	}
	forced, err := ranges(c.Forced, len(c.Tokens))
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

// ranges joins adjacent positions in a response of n tokens to half-open ranges.
func ranges(places []int, n int) ([][2]int, error) {
	var out [][2]int
	for k, at := range places {
		if at < 0 || at >= n || k > 0 && at <= places[k-1] {
			return nil, fmt.Errorf("the policy reports a forced token at position %d of %d after %v; positions must increase and be in the response", at, n, places[:k])
		}
		if last := len(out) - 1; last >= 0 && out[last][1] == at {
			out[last][1]++
		} else {
			out = append(out, [2]int{at, at + 1})
		}
	}
	return out, nil
}
