package policy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// askKeys counts the conversations of Ask down from the largest key, so that they
// do not collide with callers' keys, which count up from 0.
var askKeys atomic.Uint64

// Ask returns a function that sends questions to a policy, each in its own conversation,
// which it ends afterwards. The function returns the answers in order. errs has the errors
// of single conversations, err is the error of the whole call.
func Ask(
	p Policy, s Sampling,
) func(ctx context.Context, questions []string) (answers []string, errs []error, err error) {
	return func(ctx context.Context, questions []string) ([]string, []error, error) {
		if p == nil {
			return nil, nil, errors.New("policy: ask: the policy is nil")
		}
		prompts := make([]Prompt, len(questions))
		keys := make([]uint64, len(questions))
		for i, q := range questions {
			keys[i] = -askKeys.Add(1)
			prompts[i] = Prompt{Conversation: keys[i], Messages: []Message{{Role: User, Text: q}}}
		}
		defer p.Forget(keys...)
		out, err := p.Generate(ctx, prompts, s)
		if err == nil && len(out) != len(questions) {
			err = fmt.Errorf("policy: ask: the policy returned %d completions for %d prompts", len(out), len(questions))
		}
		if err != nil {
			return nil, nil, err
		}
		answers, errs := make([]string, len(out)), make([]error, len(out))
		for i, c := range out {
			answers[i], errs[i] = c.Text, c.Err
		}
		return answers, errs, nil
	}
}
