package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"

	"vagen/internal/clock"
	"vagen/internal/floats"
	"vagen/internal/procgroup"
	"vagen/rollout"
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
	rewards map[*call]*float64 // that of the episode is the root's
	solved  *bool              // nil if neither the agent nor the program said whether
}

func (e *Episode) success() bool {
	if e.solved != nil {
		return *e.solved
	}
	x := e.rewards[e.root]
	return x != nil && *x > 0
}

// checkReward returns an error about a reward that is missing, or that rows, which are of float32, cannot hold.
func checkReward(x *float64) error {
	switch {
	case x == nil:
		return refusal("reward", "missing, must be a number")
	case !floats.Finite(float32(*x)):
		return refusal("reward", "%v is not allowed, must be finite and fit a float32", *x)
	}
	return nil
}

// pay records a reward, that of the episode or of a turn, and whether the episode is a success. What is sent again
// must be the same, and nothing new is recorded after the end.
func (e *Episode) pay(r result) error {
	if r.Reward != nil {
		if bad := checkReward(r.Reward); bad != nil {
			return bad
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.root
	if r.Answer != "" {
		if c = e.answer(r.Answer); c == nil {
			return refusal("answer", "%q is no answer of this episode", r.Answer)
		}
		c.delivered = true // its id is known
	}
	bad := cmp.Or(recordable(e, "reward", e.rewards[c], r.Reward), recordable(e, "success", e.solved, r.Success))
	if bad != nil {
		return bad
	}
	if r.Reward != nil {
		e.rewards[c] = r.Reward
	}
	e.solved = cmp.Or(r.Success, e.solved)
	return nil
}

// recordable returns an error if a value differs from the one before, or is the first one but comes after the
// end; nil is no value. The mutex must be held.
func recordable[T comparable](e *Episode, field string, before, now *T) error {
	switch {
	case now == nil || before != nil && *before == *now:
		return nil
	case before != nil:
		bad := refusal(field, "%v, but %v was sent before, must be the same", *now, *before)
		bad.Status = http.StatusConflict
		return bad
	case e.ended():
		return e.over()
	}
	return nil
}

// end ends an episode, with an error if it failed.
func (e *Episode) end(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.ended():
	// agents may fail because they get no answer
	case err == nil || e.refused != nil && len(e.turns) > 0 && errors.Is(err, ErrAgent):
		e.finished = true
	default:
		e.err = fmt.Errorf("gateway: %w", err)
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
	if x := e.rewards[e.root]; x != nil {
		r.Score = &Score{Reward: *x, Success: e.solved}
	}
	for _, c := range e.turns {
		a := c.answer
		t := RecordTurn{After: c.parent.turn, Text: a.Text, Reasoning: a.Reasoning}
		for _, m := range c.delta {
			t.Messages = append(t.Messages, RecordMessage{m.Role, m.Text})
		}
		for _, k := range a.Calls {
			t.Calls = append(t.Calls, RecordCall{k.Name, k.Arguments})
		}
		r.Turns = append(r.Turns, t)
	}
	return r
}

// score asks the function or the program that scores episodes, and checks that there are an answer and a reward.
func (e *Episode) score(ctx context.Context) error {
	var s result
	var err error
	switch {
	case len(e.turns) == 0: // no other call changes them at the end
		return ErrNoTurns
	case e.gate.o.Score != nil:
		var given Score
		given, err = e.gate.o.Score(ctx, e.describeTurns())
		s = given.result()
	case len(e.options.RewardCommand) > 0:
		s, err = e.runReward(ctx)
	default:
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.rewards) == 0 {
			return ErrNoReward
		}
		return nil
	}
	if err == nil {
		err = checkReward(s.Reward)
	}
	if err != nil {
		return fmt.Errorf("gateway: %w: %w", rollout.ErrReward, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// What the agent sent, for turns, too, does not count.
	e.ledger = ledger{map[*call]*float64{e.root: s.Reward}, s.Success}
	return nil
}

// rewardOutput limits what a program that scores may write, in bytes.
const rewardOutput = 64 << 10

// runReward runs the program that reads a Record as JSON and writes a Score as JSON.
func (e *Episode) runReward(ctx context.Context) (s result, err error) {
	ctx, cancel := context.WithTimeout(ctx, clock.Seconds(e.options.RewardTimeout))
	defer cancel()
	in, err := json.Marshal(e.describeTurns())
	if err != nil {
		return s, err
	}
	command, out := e.options.RewardCommand, &procgroup.Tail{Most: rewardOutput}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout = bytes.NewReader(in), out
	if err = e.run(cmd); err == nil {
		if err = json.Unmarshal(out.Bytes, &s); err != nil {
			err = fmt.Errorf("command %q: its output must be a JSON object with a reward: %w", command[0], err)
		}
	} else if ctx.Err() != nil {
		err = fmt.Errorf("%v (limit %v s): %w", ctx.Err(), e.options.RewardTimeout, err)
	}
	return s, err
}
