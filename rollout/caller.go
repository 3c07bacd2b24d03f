package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"vagen/env"
	"vagen/policy"
)

// Caller is an environment that decides itself what the policy reads: a program that asks for
// responses, such as an agent behind package rollout/gateway. The player's Harness is not asked.
// Reset returns when the program has made its first call; Answer takes the place of Step. System is not asked.
//
// A call continues the conversation of an earlier turn or opens one. A conversation is a row.
// A call after the last turn of a row continues that row; one after an earlier turn begins a row
// whose context is the tokens of the first one up to the turn. Tokens are never rendered again.
type Caller interface {
	env.Env
	// Begin receives the episode and the policy that plays it, before Reset, and waits until the program can play it.
	// That may take long, such as until a client comes, so neither EnvTimeout nor EpisodeTimeout limits it. It returns
	// when ctx ends, and may change Seed, Group and Config to those of the client, which are recorded.
	Begin(ctx context.Context, e *Episode, by policy.Policy) error
	// Call returns the call that waits for a response, after Reset and after each Answer whose
	// outcome is not done.
	Call() Call
	// Answer gives the response to the call, or the reason why there is none, and waits for the
	// next call or for the end of the episode. Its rewards and metrics are those of the turn.
	Answer(ctx context.Context, r Reply) (env.Outcome, error)
	// Conclude is called with the trajectory of an episode that ended without an error. It may
	// change its turns' rewards, and discard turns with Trajectory.Discard.
	Conclude(t *Trajectory) error
}

// Call is a request for a response.
type Call struct {
	After       int                     // the turn whose response the messages follow; -1 opens a conversation
	Messages    []policy.Message        // what the policy reads; the last one is the user's or a tool's
	Whole       func() []policy.Message // the conversation from its start, for policies that cannot resume one
	StopStrings []string                // end the response, in addition to the player's
}

// Reply is the answer to a Call.
type Reply struct {
	Turn        int // its index in Trajectory.Turns
	Text        string
	Stop        policy.Stop
	Read, Wrote int // tokens of the row before the response, and of the response
	// Err says why the call gets no response; it is no turn then. ErrTurns, policy.ErrNoRoom and policy.ErrMessages
	// are wrapped. The episode continues.
	Err error
}

// CallerOf returns an environment as a Caller, nil if it is none. The error says that a wrapper, such as that of the
// option rewards, hides one: its episodes would not be concluded.
func CallerOf(e env.Env) (Caller, error) {
	if c, ok := e.(Caller); ok {
		return c, nil
	}
	if _, hidden := env.Unwrap(e).(Caller); hidden {
		return nil, fmt.Errorf("rollout: %w: a program that asks for responses pays its rewards itself, the option rewards "+
			"and wrappers of environments are not allowed", env.ErrOption)
	}
	return nil, nil
}

// ErrTurns means that an episode has reached its limit on turns.
var ErrTurns = errors.New("the episode has reached its limit on turns")

// errTrial means that the environment to try is a Caller, whose program is not started to try it.
var errTrial = errors.New("the environment is a program that asks for responses")

// begin waits until the program of a Caller can play the episode, and then for its first call.
func (p *Player) begin(ctx context.Context, l *live, c Caller) {
	what := "begin of " + l.Env
	_, err := recoverPanic(ctx, what, func(ctx context.Context) (any, error) {
		return nil, c.Begin(ctx, &l.Episode, p.Policy)
	})
	if err != nil {
		err = fmt.Errorf("rollout: %s: %w", what, err)
	} else {
		l.observation, err = callEnv(ctx, p, l, "reset", func(ctx context.Context, e env.Env) (env.Observation, error) {
			o, err := e.Reset(ctx, l.Seed)
			return o, errors.Join(err, checkObservation(o))
		})
	}
	if err != nil {
		l.fail(endOf(err, EndSetup), err)
	}
}

// nextCall is next for a Caller.
func (p *Player) nextCall(l *live, c Caller) (policy.Prompt, bool) {
	if len(l.Turns) >= l.MaxTurns {
		l.refused = fmt.Errorf("rollout: %w (%d)", ErrTurns, l.MaxTurns)
		return policy.Prompt{}, false
	}
	call := c.Call()
	messages, err := p.place(l, call)
	ends := []policy.Role{policy.User, policy.Tool}
	if err == nil && (len(messages) == 0 || !slices.Contains(ends, messages[len(messages)-1].Role)) {
		err = fmt.Errorf("%w: the last message of a call must be the user's or a tool's", ErrContract)
	}
	l.request = Request{Open: l.responses == 0 && len(l.prefix.Tokens) == 0, Messages: messages}
	if err == nil {
		err = p.fitCall(l)
	}
	switch {
	case ofCall(err):
		l.refuse(err)
	case err != nil:
		l.fail(EndPolicy, fmt.Errorf("rollout: before turn %d: %w", len(l.Turns), err))
	}
	q := l.prompt(l.request)
	q.Conversation, q.StopStrings = l.key, call.StopStrings
	return q, err == nil
}

// place makes the row of a call the current one, and returns the messages that the policy has
// not read in it.
func (p *Player) place(l *live, call Call) ([]policy.Message, error) {
	l.prefix = policy.Recorded{}
	if call.After < 0 {
		p.openConversation(l)
		return call.Messages, nil
	}
	if call.After >= len(l.Turns) {
		return nil, fmt.Errorf("%w: a call follows turn %d, the episode has %d", ErrContract, call.After, len(l.Turns))
	}
	r, nth, images, last := l.Turns[call.After].Row, 0, 0, true // of the row: turns up to the call, and images after it
	for k, t := range l.Turns {
		switch {
		case t.Row != r:
		case k <= call.After:
			nth++
		default:
			images, last = images+len(t.Observation.Images), false
		}
	}
	if last && r == l.row && !l.lost {
		return call.Messages, nil
	}
	resumer, ok := policy.As[policy.Resumer](p.Policy)
	row := &l.Rows[r]
	before := row.upTo(nth, max(0, len(row.Images)-images))
	prefix := policy.Recorded{Tokens: before.Tokens(), Images: before.Images}
	if !ok || len(prefix.Tokens) == 0 {
		p.openConversation(l)
		return call.Whole(), nil
	}
	if last {
		p.Policy.Forget(l.key)
		l.key, l.row, l.lost = p.newKey(), r, false
		l.responses, l.opening, l.spent, l.growth = row.lengths()
	} else {
		p.openConversation(l)
		l.prefix = prefix
	}
	prefix.Conversation = l.key
	return call.Messages, resumer.Resume(prefix)
}

// fitCall limits the response to the current call to what the budget of its row leaves: Prompt
// and Response together. The error wraps policy.ErrNoRoom if nothing is left.
func (p *Player) fitCall(l *live) error {
	l.request.MaxTokens = p.limited(l, 0)
	b := p.budget(l)
	if err := p.images(l, l.request); err != nil || b.Response == 0 {
		return err
	}
	counter, ok := policy.As[policy.Counter](p.Policy)
	if !ok { // check has found it if the limit is the player's
		return fmt.Errorf("MaxRegion: %w", ErrNoCounter)
	}
	q := l.prompt(l.request)
	q.Conversation = l.key
	pending, err := counter.Count(q)
	if err != nil {
		return err
	}
	used := len(l.prefix.Tokens) + l.opening + l.spent
	b.Response, b.perTurn = b.Prompt+b.Response, l.longest(p)
	most := b.room(used, pending, 0)
	if most == 0 {
		return fmt.Errorf("%w: a row may have %d tokens, %d are used and the call needs %d", policy.ErrNoRoom, b.Response,
			used, pending)
	}
	l.request.MaxTokens = p.limited(l, most)
	return nil
}

// ofCall reports whether an error is about a call alone, so that the program may make another one.
func ofCall(err error) bool {
	return errors.Is(err, policy.ErrNoRoom) || errors.Is(err, policy.ErrMessages)
}

// refuse answers the current call with an error instead of a response. A row that was opened for
// it is removed.
func (l *live) refuse(err error) {
	l.refused, l.prefix = err, policy.Recorded{}
	if l.responses == 0 {
		l.Rows = l.Rows[:len(l.Rows)-1]
	}
	l.lost = true
}

// answer gives the environment the response to its call, and waits for the next one.
func (p *Player) answer(ctx context.Context, l *live, c Caller) {
	r := Reply{Turn: len(l.Turns) - 1, Err: l.refused}
	if l.refused == nil {
		turn := &l.Turns[r.Turn]
		r.Text, r.Stop = turn.Response, turn.Stop
		row := &l.Rows[l.row]
		start, end, _ := row.TurnAt(row.Turns() - 1) // 0 without tokens
		r.Read, r.Wrote = start, end-start
	}
	o, err := callEnv(ctx, p, l, "answer", func(ctx context.Context, _ env.Env) (env.Outcome, error) {
		return checked(c.Answer(ctx, r))
	})
	if err != nil {
		l.fail(endOf(err, EndEnv), err)
		return
	}
	if l.refused == nil {
		l.receive(r.Turn, o)
	}
	l.Metrics, l.Success = o.Trajectory, o.Success
	if !o.Done {
		l.observation, l.cut, l.refused = o.Observation, false, nil
		return
	}
	l.End, l.ended = EndDone, true
	switch {
	case errors.Is(l.refused, ErrTurns):
		l.End = EndMaxTurns
	case errors.Is(l.refused, policy.ErrNoRoom):
		l.End = EndNoRoom
	}
	conclude := func(context.Context) (any, error) { return nil, c.Conclude(l.Trajectory) }
	if _, err := recoverPanic(ctx, "conclude", conclude); err != nil {
		l.fail(endOf(err, EndEnv), err)
	}
	for k := range l.Turns {
		l.scale(k)
	}
}

// closeCaller frees what the program of an ended episode holds, so that another can start.
func (p *Player) closeCaller(l *live) {
	if c, ok := l.env.(Caller); ok {
		p.closeEnv(l.Env, c)
		l.env = nil
	}
}

// Discard removes turns from an episode, which must be the last ones of their rows: responses
// that nobody used. What the policy read for them alone is removed, too, and rows that have no
// turn left.
func (t *Trajectory) Discard(turns ...int) error {
	t = cmp.Or(t, new(Trajectory))
	rows := map[int]int{} // number of turns to keep
	for _, k := range turns {
		if k < 0 || k >= len(t.Turns) {
			return fmt.Errorf("rollout: discard turn %d: the episode has %d turns", k, len(t.Turns))
		}
	}
	images, cut := make([]int, len(t.Rows)), make([]bool, len(t.Rows)) // of the turns to discard
	for k, turn := range t.Turns {
		switch {
		case turn.Row < 0 || turn.Row >= len(t.Rows):
			return fmt.Errorf("rollout: discard: turn %d is in row %d, the episode has %d", k, turn.Row, len(t.Rows))
		case slices.Contains(turns, k):
			images[turn.Row] += len(turn.Observation.Images)
			cut[turn.Row] = true
		case cut[turn.Row]:
			return fmt.Errorf("rollout: discard: turn %d follows a discarded turn in its row", k)
		default:
			rows[turn.Row]++
		}
	}
	place, kept := make([]int, len(t.Rows)), t.Rows[:0:0]
	for r := range t.Rows {
		place[r] = len(kept)
		switch n, row := rows[r], &t.Rows[r]; {
		case n == 0:
		case row.Len() == 0 || n == row.Turns():
			kept = append(kept, *row)
		default:
			kept = append(kept, row.upTo(n, max(0, len(row.Images)-images[r])))
		}
	}
	var left []Turn
	for k, turn := range t.Turns {
		if !slices.Contains(turns, k) {
			turn.Row = place[turn.Row]
			left = append(left, turn)
		}
	}
	t.Turns, t.Rows = left, kept
	return nil
}
