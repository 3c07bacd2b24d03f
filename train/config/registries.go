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

// Registries resolve the names in a configuration: estimators, filters, harnesses,
// policy losses and the metrics of a step. To add your own, set a field to a registry of that package that
// contains them. The zero value has the built-in ones.
type Registries struct {
	Estimators *advantage.Registry
	Filters    *filter.Registry
	Metrics    *diagnose.Registry
	Harnesses  *rollout.Harnesses
	Losses     *loss.Registry
}

// Validate is Config.Validate with these registries.
func (r Registries) Validate(c *Config) error {
	if problems := c.problems(r.WithBuiltins()); len(problems) > 0 {
		return fmt.Errorf("%w: %w", ErrConfig, errors.Join(problems...))
	}
	return nil
}

// WithBuiltins replaces nil registries by the built-in ones.
func (r Registries) WithBuiltins() Registries {
	if r.Estimators == nil {
		r.Estimators = advantage.Builtin()
	}
	if r.Filters == nil {
		r.Filters = filter.Builtin()
	}
	if r.Metrics == nil {
		// The options only have to be valid: clip fractions come from the learner.
		r.Metrics, _ = diagnose.Builtin(diagnose.DefaultOptions())
	}
	if r.Harnesses == nil {
		r.Harnesses = rollout.Builtin()
	}
	if r.Losses == nil {
		r.Losses = loss.Builtin()
	}
	return r
}

// MetricNames lists the metrics that a configuration selects.
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
				return nil, fmt.Errorf("%q is not a metric%s; allowed are all, none, or some of %q", name, nearest.Hint(name, known), known)
			}
		}
		return names, nil
	}
}

// NewFilter returns the filter of a configuration, nil if filter.enable is false.
func (r Registries) NewFilter(c *Config) (filter.Filter, error) {
	if !c.Filter.Enable {
		return nil, nil
	}
	return r.Filters.New(c.Filter.Name, c.Filter.Settings)
}
