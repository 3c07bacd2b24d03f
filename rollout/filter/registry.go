package filter

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"vagen/internal/byname"
	"vagen/internal/field"
	"vagen/internal/nearest"
)

// Builder creates a filter from settings. It reads each setting that it knows, with
// the default for one that is not given; settings that it does not read are refused
// as unknown.
type Builder func(a *Args) (Filter, error)

// kind is the kind of a registry's entries.
type kind struct{}

// table is in every registry.
type table = byname.Table[Builder, kind]

func (kind) Kind() byname.Kind {
	return byname.Kind{Package: "filter", Entry: "filter", Unknown: ErrUnknown, Duplicate: ErrDuplicate}
}

// Registry finds filters by name. The zero value is empty and ready to use;
// [Builtin] returns one with the filters of this package. It is safe for
// concurrent use.
//
// Register(name, build, about...) adds a filter under a name, with a description for Describe; the error
// wraps ErrDuplicate when the name is taken. Names() returns the known names in alphabetical order.
// Describe(name) returns what the filter with this name keeps, "" if Register got no description; errors
// are those of New.
type Registry struct {
	table
}

// Builtin returns a new registry with the filters of this package. Their settings:
//
//	reward_variance        topk 0.2, ddof 0, scaling none
//	reward_variance_top_k  k 4, ddof 0, scaling none
//	reward_variance_top_p  top_p 0.9, ddof 0, scaling sqrt
//	reward_variance_min_p  min_p 0.1, ddof 0, scaling none
//	drop_equal             tolerance 1e-9, keep_none false, scaling none
func Builtin() *Registry {
	drop := byname.Entry[Builder]{About: "the groups whose returns are not all equal",
		Value: func(a *Args) (Filter, error) {
			d := DefaultDropEqual()
			return DropEqual{
				a.Float("tolerance", d.Tolerance), a.Bool("keep_none", d.KeepNone), a.scaling(d.Scaling),
			}, nil
		}}
	r := new(Registry)
	byname.Fill(&r.table, map[string]byname.Entry[Builder]{
		"none": {About: "everything", Value: func(*Args) (Filter, error) { return None{}, nil }},
		"reward_variance": {About: "a share of the groups, those with the largest variance of returns",
			Value: func(a *Args) (Filter, error) {
				d := DefaultTopFraction()
				return TopFraction{a.Float("topk", d.Fraction), a.ddof(), a.scaling(d.Scaling)}, nil
			}},
		"reward_variance_top_k": {About: "k groups, those with the largest variance of returns",
			Value: func(a *Args) (Filter, error) {
				return TopK{a.Int("k", 4), a.ddof(), a.scaling(NoScaling)}, nil
			}},
		"reward_variance_top_p": {About: "the groups with the largest variance of returns until they have a share of all variance", Value: func(a *Args) (Filter, error) {
			d := DefaultTopP()
			return TopP{a.Float("top_p", d.P), a.ddof(), a.scaling(d.Scaling)}, nil
		}},
		"reward_variance_min_p": {About: "the groups whose variance of returns is at least a share of the largest one",
			Value: func(a *Args) (Filter, error) {
				d := DefaultMinP()
				return MinP{a.Float("min_p", d.P), a.ddof(), a.scaling(d.Scaling)}, nil
			}},
		"drop_equal": drop,
		"dapo":       drop,
	})
	return r
}

// New builds the filter with this name. kwargs are the settings of a configuration,
// with values as a YAML or JSON decoder returns them. All errors are reported at once:
// unknown keys with the nearest known one, wrong types, values out of range.
func (r *Registry) New(name string, kwargs map[string]any) (Filter, error) {
	build, err := byname.Get(&r.table, name)
	if err != nil {
		return nil, err
	}
	a := &Args{values: kwargs}
	f, err := byname.Made(build(a))
	if c, ok := f.(interface{ check() error }); ok { // a filter of this package
		err = c.check()
	}
	if err = errors.Join(err, a.problems()); err != nil {
		return nil, fmt.Errorf("filter: %q: %w", name, err)
	}
	return f, nil
}

// Args passes settings to a Builder and records which ones it reads.
type Args struct {
	values map[string]any
	read   []string
	errs   []error
}

// Float returns a number, or fallback when the key is absent.
func (a *Args) Float(key string, fallback float64) float64 { return read(a, key, fallback) }

// Int returns a whole number, or fallback when the key is absent.
func (a *Args) Int(key string, fallback int) int { return read(a, key, fallback) }

// Bool returns true or false, or fallback when the key is absent.
func (a *Args) Bool(key string, fallback bool) bool { return read(a, key, fallback) }

// String returns a text, or fallback when the key is absent.
func (a *Args) String(key, fallback string) string { return read(a, key, fallback) }

func read[T any](a *Args, key string, fallback T) T {
	x := fallback
	a.read = append(a.read, key)
	if bad := (field.Rules{KeepNull: true}).Set(reflect.ValueOf(&x).Elem(), a.values[key]); bad != nil {
		a.errs = append(a.errs, fmt.Errorf("%s is %w: %w", key, bad, ErrSetting))
		return fallback
	}
	return x
}

func (a *Args) ddof() int {
	n := a.Int("ddof", 0)
	if n < 0 {
		a.errs = append(a.errs, fmt.Errorf("ddof is %d, must be 0 or more: %w", n, ErrSetting))
	}
	return n
}

func (a *Args) scaling(fallback Scaling) Scaling {
	s := Scaling(a.String("scaling", string(fallback)))
	if err := s.check(); err != nil {
		a.errs = append(a.errs, err)
	}
	return s
}

// problems returns settings of the wrong type, and keys that the Builder did not read.
func (a *Args) problems() error {
	errs := slices.Clone(a.errs)
	for _, key := range slices.Sorted(maps.Keys(a.values)) {
		if slices.Contains(a.read, key) {
			continue
		}
		known := "none"
		if len(a.read) > 0 {
			known = strings.Join(a.read, ", ")
		}
		errs = append(errs, fmt.Errorf("%s: no such setting%s (known: %s): %w", key, nearest.Hint(key, a.read), known,
			ErrSetting))
	}
	return errors.Join(errs...)
}
