package rollout

import (
	"errors"
	"fmt"

	"vagen/advantage"
	"vagen/internal/byname"
)

// HarnessOptions are what a configuration may say of a harness. Each takes what it
// knows.
type HarnessOptions struct {
	Window  int     // window_size: turns to remember
	Compact Compact // compact_budget, compact_summary_budget
}

// HarnessFactory makes a harness.
type HarnessFactory func(HarnessOptions) (Harness, error)

// Sentinels of Harnesses and Check.
var (
	ErrUnknownHarness   = errors.New("unknown harness")
	ErrDuplicateHarness = errors.New("harness is registered already")
	// ErrPair means that an estimator or a loss cannot be used with a harness.
	ErrPair = errors.New("settings do not fit together")
)

// Harnesses maps names to harnesses. The zero value is empty and ready, and all
// methods are safe for concurrent use.
type Harnesses struct {
	factories byname.Table[HarnessFactory]
}

// BuiltinHarnesses returns a new registry with the harnesses of this package:
// compact, concat, no_concat and window.
func BuiltinHarnesses() *Harnesses {
	r := new(Harnesses)
	r.factories.AddAll(map[string]HarnessFactory{
		"concat":    func(HarnessOptions) (Harness, error) { return Concat{}, nil },
		"no_concat": func(HarnessOptions) (Harness, error) { return NoConcat{}, nil },
		"window": func(o HarnessOptions) (Harness, error) {
			if o.Window < 0 {
				return nil, fmt.Errorf("the window has %d turns, must not be negative", o.Window)
			}
			return Window{Size: o.Window}, nil
		},
		"compact": func(o HarnessOptions) (Harness, error) {
			if o.Compact.Summary < 1 {
				return nil, fmt.Errorf("%w: it has %d tokens", ErrNoSummary, o.Compact.Summary)
			}
			return o.Compact, nil
		},
	})
	return r
}

// Register adds a harness under a name. The error wraps ErrDuplicateHarness when
// the name is taken.
func (r *Harnesses) Register(name string, f HarnessFactory) error {
	if name == "" || f == nil {
		return fmt.Errorf("rollout: register harness %q: a name and a factory are needed", name)
	}
	if !r.factories.Add(name, f) {
		return fmt.Errorf("rollout: register harness %q: %w", name, ErrDuplicateHarness)
	}
	return nil
}

// New makes a harness by name. The error wraps ErrUnknownHarness when nothing has
// that name, and names the nearest one.
func (r *Harnesses) New(name string, o HarnessOptions) (Harness, error) {
	f, err := r.factories.Get(name, ErrUnknownHarness)
	if err != nil {
		return nil, fmt.Errorf("rollout: %w", err)
	}
	h, err := f(o)
	if err == nil && h == nil {
		err = errors.New("its factory returned no harness")
	}
	if err != nil {
		return nil, fmt.Errorf("rollout: harness %s: %w", name, err)
	}
	return h, nil
}

// Names returns the registered names, sorted.
func (r *Harnesses) Names() []string { return r.factories.Names() }

// Check reports whether rows of a harness can be learned from with an estimator
// and a policy loss. turnLoss names a loss over turns, such as turn_ppo; it is
// empty for others. The error wraps ErrPair and has a line for each of
//
//   - a harness that may split episodes, and an estimator that takes a row for one
//   - a loss over turns, and an estimator that does not tell the turns
func Check(h Harness, e advantage.Spec, turnLoss string) error {
	var problems []error
	if h != nil && h.Splits() && e.RowLocal {
		problems = append(problems, fmt.Errorf("%w: %s takes a row for a whole episode, but this harness may lay an episode out in several rows", ErrPair, e.Name))
	}
	if turnLoss != "" && !e.TurnIDs {
		problems = append(problems, fmt.Errorf("%w: the loss %s works on turns, which %s does not tell apart", ErrPair, turnLoss, e.Name))
	}
	return errors.Join(problems...)
}
