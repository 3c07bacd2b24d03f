package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"

	"vagen/internal/clock"
	"vagen/internal/floats"
	"vagen/rollout"
	"vagen/rollout/gateway/internal/dialect"
)

// Score is what an episode was worth.
type Score struct {
	Reward  float64 `json:"reward"`
	Success *bool   `json:"success,omitempty"` // nil: a positive reward is a success
}

// result is what agents and programs that score say about an episode. What they leave out is nil.
type result struct {
	Reward  *float64 `json:"reward"`
	Success *bool    `json:"success"`
	Answer  string   `json:"answer"` // id of the answer whose turn is paid; "" is the episode
}

// result returns the score as what an agent says.
func (s Score) result() result { return result{Reward: &s.Reward, Success: s.Success} }

// ledger holds the rewards of an episode.
type ledger struct {
	turns  map[int]float64 // by turn
	result                 // of the episode
}

func (l *ledger) success() bool {
	if l.Success != nil {
		return *l.Success
	}
	return l.Reward != nil && *l.Reward > 0
}

// checkReward returns an error about a reward that rows, which are of float32, cannot hold.
func checkReward(x float64) *dialect.Error {
	if !floats.Finite(float64(float32(x))) {
		return refusal("reward", "%v is not allowed, must be finite and fit a float32", x)
	}
	return nil
}

// pay records a reward, that of the episode or of a turn, and whether the episode is a success. What is sent again
// must be the same, and nothing new is recorded after the end.
func (e *Episode) pay(r result) *dialect.Error {
	if r.Reward != nil {
		if bad := checkReward(*r.Reward); bad != nil {
			return bad
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	l, before, turn := &e.ledger, e.ledger.Reward, -1
	if r.Answer != "" {
		n := e.items[trimID(r.Answer)]
		if n == nil {
			return refusal("answer", "%q is no answer of this episode", r.Answer)
		}
		n.Value.delivered = true // its id is known
		before, turn = nil, n.Value.turn
		if x, ok := l.turns[turn]; ok {
			before = &x
		}
	}
	bad := recordable(e, "reward", before, r.Reward)
	if bad == nil {
		bad = recordable(e, "success", l.Success, r.Success)
	}
	if bad != nil {
		return bad
	}
	if r.Success != nil {
		l.Success = r.Success
	}
	switch {
	case r.Reward == nil:
	case turn < 0:
		l.Reward = r.Reward
	default:
		if l.turns == nil {
			l.turns = map[int]float64{}
		}
		l.turns[turn] = *r.Reward
	}
	return nil
}

// recordable returns an error if a value differs from the one before, or is the first one but comes after the
// end; nil is no value. The mutex must be held.
func recordable[T comparable](e *Episode, field string, before, now *T) *dialect.Error {
	switch {
	case now == nil || before != nil && *before == *now:
		return nil
	case before != nil:
		return &dialect.Error{Status: http.StatusConflict, Field: field,
			Message: fmt.Sprintf("%v, but %v was sent before, must be the same", *now, *before)}
	case e.state.ended():
		return e.over()
	}
	return nil
}

// end ends an episode, with an error if it failed.
func (e *Episode) end(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.state.ended():
	// agents may fail because they get no answer
	case err == nil || e.state.refused != nil && len(e.turns) > 0 && errors.Is(err, ErrAgent):
		e.state.finished = true
	default:
		e.state.err = fmt.Errorf("gateway: %w", err)
	}
	e.signal()
}

// Record is an episode as a program that scores it reads it.
type Record struct {
	Task  map[string]any `json:"task"`
	Seed  int64          `json:"seed"`
	Group int            `json:"group"`
	Turns []RecordTurn   `json:"turns"`
	Score *Score         `json:"score,omitempty"` // from the agent; nil if it sent none
}

// RecordTurn is an answer and what is new before it.
type RecordTurn struct {
	After     int             `json:"after"` // the turn it follows, −1 for none
	Messages  []RecordMessage `json:"messages"`
	Text      string          `json:"text"`
	Reasoning string          `json:"reasoning,omitempty"`
	Calls     []RecordCall    `json:"calls,omitempty"`
}

// RecordMessage is a message without its images.
type RecordMessage struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// RecordCall is a call of a tool.
type RecordCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// describeTurns describes the episode.
func (e *Episode) describeTurns() Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := Record{Task: e.Task, Seed: e.Seed, Group: e.Group}
	if l := &e.ledger; l.Reward != nil {
		r.Score = &Score{Reward: *l.Reward, Success: l.Success}
	}
	for _, c := range e.turns {
		a := c.node.Answer
		t := RecordTurn{After: -1, Text: a.Text, Reasoning: a.Reasoning}
		if p := c.node.Parent; p != nil {
			t.After = p.Value.turn
		}
		for _, m := range c.node.Delta {
			t.Messages = append(t.Messages, RecordMessage{m.Role, m.Text})
		}
		for _, k := range a.Calls {
			t.Calls = append(t.Calls, RecordCall{k.Name, k.Arguments})
		}
		r.Turns = append(r.Turns, t)
	}
	return r
}

// score asks the function or the program that scores episodes, and checks that there is a reward.
func (e *Episode) score(ctx context.Context) error {
	var s Score
	var err error
	switch {
	case e.gate.o.Score != nil:
		s, err = e.gate.o.Score(ctx, e.describeTurns())
	case len(e.options.RewardCommand) > 0:
		s, err = e.runReward(ctx)
	default:
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.ledger.Reward == nil && len(e.ledger.turns) == 0 {
			return fmt.Errorf("gateway: %w", ErrNoReward)
		}
		return nil
	}
	if bad := checkReward(s.Reward); err == nil && bad != nil {
		err = bad
	}
	if err != nil {
		return fmt.Errorf("gateway: %w: %w", rollout.ErrReward, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ledger = ledger{result: s.result()} // what the agent sent, for turns, too, does not count
	return nil
}

// rewardOutput limits what a program that scores may write, in bytes.
const rewardOutput = 64 << 10

// runReward runs the program that reads a Record as JSON and writes a Score as JSON.
func (e *Episode) runReward(ctx context.Context) (Score, error) {
	ctx, cancel := context.WithTimeout(ctx, clock.Seconds(e.options.RewardTimeout))
	defer cancel()
	in, err := json.Marshal(e.describeTurns())
	if err != nil {
		return Score{}, err
	}
	command, out := e.options.RewardCommand, &tail{most: rewardOutput}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout = bytes.NewReader(in), out
	if err := e.run(cmd); ctx.Err() != nil && err != nil {
		return Score{}, fmt.Errorf("%v (limit %v s): %w", ctx.Err(), e.options.RewardTimeout, err)
	} else if err != nil {
		return Score{}, err
	}
	var s result
	if err := json.Unmarshal(out.kept, &s); err != nil {
		return Score{}, fmt.Errorf("command %q: its output must be a JSON object with a reward: %w", command[0], err)
	}
	if s.Reward == nil {
		return Score{}, errors.New("the output of the command has no field reward")
	}
	return Score{Reward: *s.Reward, Success: s.Success}, nil
}

// tail keeps the last bytes that are written to it.
type tail struct {
	most int
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if n := len(t.kept) - t.most; n > 0 {
		t.kept = append(t.kept[:0], t.kept[n:]...)
	}
	return len(b), nil
}
