package env

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"vagen/internal/nearest"
)

// Factory makes one environment from its options. It must not keep or change the
// map. Options that it does not know are an error.
type Factory func(config map[string]any) (Env, error)

// Sentinels of a Registry.
var (
	ErrUnknown   = errors.New("unknown environment")
	ErrDuplicate = errors.New("environment is registered already")
)

// Registry maps names to environments. Nothing registers itself: what a
// Registry holds is what its owner put there. The zero value is empty and ready,
// and all methods are safe for concurrent use.
type Registry struct {
	mu        sync.RWMutex
	factories map[string]Factory
	judge     Judge
}

// SetJudge has the claims of environments that New makes from now on judged and
// paid; nil leaves them to the caller.
func (r *Registry) SetJudge(j Judge) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judge = j
}

// Register adds an environment under a name. The error wraps ErrDuplicate when
// the name is taken.
func (r *Registry) Register(name string, f Factory) error {
	if name == "" || f == nil {
		return fmt.Errorf("env: register %q: a name and a factory are needed", name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.factories[name]; taken {
		return fmt.Errorf("env: register %q: %w", name, ErrDuplicate)
	}
	if r.factories == nil {
		r.factories = make(map[string]Factory)
	}
	r.factories[name] = f
	return nil
}

// New makes an environment by name. The error wraps ErrUnknown when nothing has
// that name, and names the nearest one.
func (r *Registry) New(name string, config map[string]any) (Env, error) {
	r.mu.RLock()
	f, judge := r.factories[name], r.judge
	r.mu.RUnlock()
	if f == nil {
		known := r.Names()
		return nil, fmt.Errorf("env: %q: %w%s; known environments are %s",
			name, ErrUnknown, nearest.Hint(name, known), strings.Join(known, ", "))
	}
	e, err := f(config)
	if err != nil {
		return nil, fmt.Errorf("env: %s: %w", name, err)
	}
	if c, ok := e.(Claimant); ok && judge != nil && c.Claiming() {
		return Judged{Env: e, Judge: judge}, nil
	}
	return e, nil
}

// Names returns the registered names, sorted.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.factories))
}
