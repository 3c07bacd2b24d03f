package policy

import (
	"context"
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
	out, err := m.Policy.Generate(ctx, prompts, s)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range out {
		m.used.Add(out[i].Usage)
	}
	return out, err
}

// Unwrap implements Unwrapper.
func (m *meter) Unwrap() Policy { return m.Policy }
