package rollout

import (
	"errors"
	"fmt"

	"vagen/advantage"
	"vagen/internal/byname"
)

// HarnessOptions are the settings of all harnesses. Each harness reads its own.
type HarnessOptions struct {
	Window  int     // window_size: number of earlier turns to read
	Compact Compact // compact_budget, compact_summary_budget
}

// HarnessFactory creates a harness.
type HarnessFactory func(HarnessOptions) (Harness, error)

// Sentinels of Harnesses and Check.
var (
	ErrUnknownHarness   = errors.New("unknown name")
	ErrDuplicateHarness = errors.New("the name is already registered")
	// ErrIncompatible means that an estimator or a loss cannot be used with a harness.
	ErrIncompatible = errors.New("settings cannot be used together")
)

// harnessKind is the kind of a registry's entries.
type harnessKind struct{}

// table is in every registry.
type table = byname.Table[HarnessFactory, harnessKind]

func (harnessKind) Kind() byname.Kind {
	return byname.Kind{Package: "rollout", Entry: "harness", Unknown: ErrUnknownHarness,
		Duplicate: ErrDuplicateHarness}
}

// Harnesses maps names to harnesses. The zero value is empty and ready, and all
// methods are safe for concurrent use.
//
// Register(name, factory, about...) adds a harness under a name, with a description for Describe; the
// error wraps ErrDuplicateHarness when the name is taken. Names() returns the registered names, sorted.
// Describe(name) returns what the harness with this name does, "" if Register got no description; errors
// are those of New.
type Harnesses struct {
	table
}

// Builtin returns a new registry with the harnesses of this package:
// compact, concat, no_concat and window.
func Builtin() *Harnesses {
	r := new(Harnesses)
	byname.Fill(&r.table, map[string]byname.Entry[HarnessFactory]{
		"concat": {About: "one conversation per episode", Value: func(HarnessOptions) (Harness, error) {
			return Concat{}, nil
		}},
		"no_concat": {About: "one conversation per turn", Value: func(HarnessOptions) (Harness, error) {
			return NoConcat{}, nil
		}},
		"window": {About: "one conversation per turn, with the previous turns",
			Value: func(o HarnessOptions) (Harness, error) {
				if o.Window < 0 {
					return nil, fmt.Errorf("Window is %d turns, must not be negative", o.Window)
				}
				return Window{Size: o.Window}, nil
			}},
		"compact": {About: "when a conversation is full, a new one continues with a summary",
			Value: func(o HarnessOptions) (Harness, error) {
				if o.Compact.Summary < 1 {
					return nil, fmt.Errorf("%w: Compact.Summary is %d tokens, must be positive", ErrNoSummary, o.Compact.Summary)
				}
				return o.Compact, nil
			}},
	})
	return r
}

// New creates a harness by name. The error wraps ErrUnknownHarness for an unknown
// name, and suggests the nearest known one.
func (r *Harnesses) New(name string, o HarnessOptions) (Harness, error) {
	f, err := byname.Get(&r.table, name)
	if err != nil {
		return nil, err
	}
	h, err := byname.Made(f(o))
	if err != nil {
		return nil, fmt.Errorf("rollout: harness %s: %w", name, err)
	}
	return h, nil
}

// Check reports whether an estimator and a policy loss can be used with the rows of a
// harness. turnLoss names a loss over turns, such as turn_ppo; it is empty for other
// losses. The error wraps ErrIncompatible and has a line for each of these contradictions:
//
//   - the harness may split an episode, but the estimator treats a row as an episode
//   - the loss works on turns, but the estimator does not return turn ids
func Check(h Harness, e advantage.Spec, turnLoss string) error {
	var problems []error
	if h != nil && h.Splits() && e.RowLocal {
		problems = append(problems, fmt.Errorf(
			"%w: the estimator %s treats a row as a whole episode, but this harness may split an episode into several rows",
			ErrIncompatible, e.Name))
	}
	if turnLoss != "" && !e.TurnIDs {
		problems = append(problems, fmt.Errorf(
			"%w: the loss %s works on turns, but the estimator %s does not return turn ids", ErrIncompatible, turnLoss, e.Name))
	}
	return errors.Join(problems...)
}
