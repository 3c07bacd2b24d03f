package policy

import (
	"context"
	"errors"
	"sync"
)

// Meter returns a policy that answers as p does, and a function that returns the usage of its
// completions so far. It has the abilities of p.
func Meter(p Policy) (metered Policy, used func() Usage) {
	m := &meter{Policy: p}
	used = func() Usage {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.used
	}
	return m, used
}

type meter struct {
	Policy
	mu   sync.Mutex
	used Usage
}

// Generate implements Policy.
func (m *meter) Generate(ctx context.Context, prompts []Prompt, s Sampling) ([]Completion, error) {
	if m.Policy == nil {
		return nil, errors.New("policy: meter: the policy is nil")
	}
	out, err := m.Policy.Generate(ctx, prompts, s)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range out {
		m.used.Add(out[i].Usage)
	}
	return out, err
}

// Forget implements Policy.
func (m *meter) Forget(keys ...uint64) {
	if m.Policy != nil {
		m.Policy.Forget(keys...)
	}
}

// Unwrap implements Unwrapper.
func (m *meter) Unwrap() Policy { return m.Policy }
