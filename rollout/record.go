package rollout

import (
	"errors"
	"fmt"

	"vagen/mask"
	"vagen/policy"
)

// record appends a completion to the episode's row.
func (l *live) record(c policy.Completion) {
	if c.Err != nil {
		l.fail(EndPolicy, c.Err)
		if errors.Is(c.Err, policy.ErrNoRoom) && len(l.Turns) > 0 {
			l.End, l.Err = EndNoRoom, nil
		}
		return
	}
	if len(c.Tokens) == 0 && c.Text == "" {
		l.fail(EndEmpty, errors.New("rollout: the policy wrote an empty response"))
		return
	}
	if err := l.appendTurn(c); err != nil {
		l.fail(EndPolicy, fmt.Errorf("rollout: turn %d: %w", len(l.Turns), err))
		return
	}
	l.Turns = append(l.Turns, Turn{Row: len(l.Rows) - 1, Observation: l.shown, Response: c.Text, Stop: c.Stop})
	l.pending = nil
	if c.Stop == policy.StopVision {
		l.fail(EndVision, errors.New("rollout: the policy wrote an image placeholder"))
	}
}

// appendTurn appends a completion's tokens to the episode's row. Without tokens
// it changes nothing; a conversation has them in all of its turns or in none.
func (l *live) appendTurn(c policy.Completion) error {
	row := &l.Rows[len(l.Rows)-1]
	if has := len(c.Tokens) > 0; len(l.Turns) > 0 && has != (row.Turns() > 0) {
		return fmt.Errorf("the policy gave %d tokens, after %d turns of which %d have tokens", len(c.Tokens), len(l.Turns), row.Turns())
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
	kind := mask.Observation
	if row.Turns() == 0 {
		kind = mask.Prompt
	}
	if err := errors.Join(row.AppendContext(kind, c.Context...), row.AppendResponse(c.Tokens...)); err != nil {
		return err
	}
	row.LogProbs = append(append(row.LogProbs, make([]float32, len(c.Context))...), c.LogProbs...)
	row.Images = append(row.Images, c.Images...)
	return nil
}
