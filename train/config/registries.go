package config

import (
	"cmp"
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
	if c == nil {
		return errNil
	}
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
		r.Metrics = diagnose.Builtin()
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
	known := r.WithBuiltins().Metrics.Names()
	switch names := cmp.Or(c, new(Config)).Trainer.Metrics; {
	case slices.Equal(names, []string{"all"}):
		return known, nil
	case slices.Equal(names, []string{"none"}):
		return nil, nil
	default:
		for _, name := range names {
			if !slices.Contains(known, name) {
				return nil, fmt.Errorf("%q is not a metric%s; allowed are all, none, or some of %q", name,
					nearest.Hint(name, known), known)
			}
		}
		return names, nil
	}
}

// Value is a value of a setting that is a name.
type Value struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

// Values lists the names that a setting may have, with what they stand for; nil for settings
// that are not names of a registry.
func (r Registries) Values(key string) []Value {
	r = r.WithBuiltins()
	list := func(names []string, describe func(string) (string, error)) []Value {
		out := make([]Value, len(names))
		for i, name := range names {
			about, _ := describe(name) // registered, so there is no error
			out[i] = Value{name, about}
		}
		return out
	}
	switch key {
	case "algorithm.adv_estimator":
		return list(r.Estimators.Names(), func(name string) (string, error) {
			s, err := r.Estimators.Describe(name)
			return s.About, err
		})
	case "filter.name":
		return list(r.Filters.Names(), r.Filters.Describe)
	case "trainer.metrics":
		return list(r.Metrics.Names(), r.Metrics.Describe)
	case "trainer.harness":
		return list(r.Harnesses.Names(), r.Harnesses.Describe)
	case "actor_rollout_ref.actor.policy_loss.loss_mode":
		return list(r.Losses.Names(), r.Losses.Describe)
	}
	return nil
}

// NewFilter returns the filter of a configuration, nil if filter.enable is false.
func (r Registries) NewFilter(c *Config) (filter.Filter, error) {
	if c == nil || !c.Filter.Enable {
		return nil, nil
	}
	return r.WithBuiltins().Filters.New(c.Filter.Name, c.Filter.Settings)
}
