package rollout

import (
	"errors"
	"fmt"

	"vagen/advantage"
	"vagen/internal/byname"
)

// HarnessOptions are the settings of all harnesses. Each harness reads its own.
type HarnessOptions struct {
	Window  int     // window_size: turns to remember
	Compact Compact // compact_budget, compact_summary_budget
}

// HarnessFactory makes a harness.
type HarnessFactory func(HarnessOptions) (Harness, error)

// Sentinels of Harnesses and Check.
var (
	ErrUnknownHarness   = errors.New("unknown name")
	ErrDuplicateHarness = errors.New("the name is already registered")
	// ErrPair means that an estimator or a loss cannot be used with a harness.
	ErrPair = errors.New("settings do not fit together")
)

var harnessEntries = byname.Kind{Package: "rollout", Entry: "harness", Unknown: ErrUnknownHarness, Duplicate: ErrDuplicateHarness}

// Harnesses maps names to harnesses. The zero value is empty and ready, and all
// methods are safe for concurrent use.
type Harnesses struct {
	factories byname.Table[HarnessFactory]
}

// Builtin returns a new registry with the harnesses of this package:
// compact, concat, no_concat and window.
func Builtin() *Harnesses {
	r := new(Harnesses)
	r.factories.Fill(map[string]HarnessFactory{
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
	return r.factories.Register(harnessEntries, name, f)
}

// New makes a harness by name. The error wraps ErrUnknownHarness when nothing has
// that name, and names the nearest one.
func (r *Harnesses) New(name string, o HarnessOptions) (Harness, error) {
	f, err := r.factories.Get(harnessEntries, name)
	if err != nil {
		return nil, err
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
