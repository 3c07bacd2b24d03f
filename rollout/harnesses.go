package rollout

import (
	"errors"
	"fmt"

	"vagen/advantage"
	"vagen/internal/byname"
)

// HarnessOptions are the settings of harnesses. Each harness uses its own and ignores
// the others.
type HarnessOptions struct {
	Window  int     // window_size: number of earlier turns to read
	Compact Compact // compact_budget, compact_summary_budget
}

// HarnessFactory creates a harness.
type HarnessFactory func(HarnessOptions) (Harness, error)

// Sentinels of Harnesses and Check.
var (
	ErrUnknownHarness   = errors.New("unknown harness")
	ErrDuplicateHarness = errors.New("a harness of this name is registered already")
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
				return nil, fmt.Errorf("Window is %d turns, must not be negative", o.Window)
			}
			return Window{Size: o.Window}, nil
		},
		"compact": func(o HarnessOptions) (Harness, error) {
			if o.Compact.Summary < 1 {
				return nil, fmt.Errorf("%w: Compact.Summary is %d tokens, must be positive", ErrNoSummary, o.Compact.Summary)
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
		return fmt.Errorf("rollout: register harness %q: the name is empty or the factory is nil", name)
	}
	if !r.factories.Add(name, f) {
		return fmt.Errorf("rollout: register harness %q: %w", name, ErrDuplicateHarness)
	}
	return nil
}

// New creates a harness by name. The error wraps ErrUnknownHarness for an unknown
// name, and suggests the nearest known one.
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

// Check reports whether an estimator and a policy loss can be used with the rows of a
// harness. turnLoss names a loss over turns, such as turn_ppo; it is empty for other
// losses. The error wraps ErrPair and has a line for each of these contradictions:
//
//   - the harness may split an episode, but the estimator treats a row as an episode
//   - the loss works on turns, but the estimator does not return turn ids
func Check(h Harness, e advantage.Spec, turnLoss string) error {
	var problems []error
	if h != nil && h.Splits() && e.RowLocal {
		problems = append(problems, fmt.Errorf("%w: the estimator %s treats a row as a whole episode, but this harness may split an episode into several rows", ErrPair, e.Name))
	}
	if turnLoss != "" && !e.TurnIDs {
		problems = append(problems, fmt.Errorf("%w: the loss %s works on turns, but the estimator %s does not return turn ids", ErrPair, turnLoss, e.Name))
	}
	return errors.Join(problems...)
}
