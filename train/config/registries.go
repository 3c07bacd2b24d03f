package config

import (
	"errors"
	"fmt"
	"slices"

	"vagen/advantage"
	"vagen/internal/nearest"
	"vagen/policy/loss"
	"vagen/rollout"
	"vagen/rollout/diagnose"
	"vagen/rollout/filter"
)

// Registries are where the names in a configuration are looked up: estimators,
// filters, harnesses, policy losses and the metrics of a step. To add one's own, fill a field with a
// registry of that package that knows them. The zero value knows what is built
// in.
type Registries struct {
	Estimators *advantage.Registry
	Filters    *filter.Registry
	Metrics    *diagnose.Registry
	Harnesses  *rollout.Harnesses
	Losses     *loss.Registry
}

// Validate is Config.Validate with these names.
func (r Registries) Validate(c *Config) error {
	if problems := c.problems(r.WithBuiltins()); len(problems) > 0 {
		return fmt.Errorf("%w: %w", ErrConfig, errors.Join(problems...))
	}
	return nil
}

// WithBuiltins replaces absent registries by the built-in ones.
func (r Registries) WithBuiltins() Registries {
	if r.Estimators == nil {
		r.Estimators = advantage.DefaultRegistry()
	}
	if r.Filters == nil {
		r.Filters = filter.Builtin()
	}
	if r.Metrics == nil {
		// Clip fractions come from the learner; the options only have to be legal.
		r.Metrics, _ = diagnose.Builtin(diagnose.DefaultOptions())
	}
	if r.Harnesses == nil {
		r.Harnesses = rollout.BuiltinHarnesses()
	}
	if r.Losses == nil {
		r.Losses = loss.Builtin()
	}
	return r
}

// MetricNames lists the metrics that a configuration asks for.
func (r Registries) MetricNames(c *Config) ([]string, error) {
	known := r.Metrics.Names()
	switch names := c.Trainer.Metrics; {
	case slices.Equal(names, []string{"all"}):
		return known, nil
	case slices.Equal(names, []string{"none"}):
		return nil, nil
	default:
		for _, name := range names {
			if !slices.Contains(known, name) {
				return nil, fmt.Errorf("%q is not a metric%s; there are all, none, or some of %q", name, nearest.Hint(name, known), known)
			}
		}
		return names, nil
	}
}

// NewFilter makes the filter of a configuration, nil for none.
func (r Registries) NewFilter(c *Config) (filter.Filter, error) {
	if !c.Filter.Enable {
		return nil, nil
	}
	return r.Filters.New(c.Filter.Name, c.Filter.Settings)
}
