package diagnose

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"vagen/internal/byname"
	"vagen/internal/floats"
)

// Metric measures a batch and writes the results to dst, under names of its own. If the
// batch lacks a column that it needs, it writes nothing. It must not change the batch.
type Metric func(dst map[string]float64, b *Batch) error

// kind is the kind of a registry's entries.
type kind struct{}

// table is in every registry.
type table = byname.Table[Metric, kind]

func (kind) Kind() byname.Kind {
	return byname.Kind{Package: "diagnose", Entry: "metric", Unknown: ErrUnknown, Duplicate: ErrDuplicate}
}

// Registry holds metrics by name. The zero value is empty and ready to use;
// [Builtin] returns one with the metrics of this package. It is safe for
// concurrent use.
//
// Register(name, metric, about...) adds a metric under a name, with a description for Describe; the error
// wraps ErrDuplicate when the name is taken. Names() returns the known names in alphabetical order.
// Describe(name) returns what the metric with this name shows, "" if Register got no description; errors
// are those of New.
type Registry struct {
	table
}

// Builtin returns a new registry with the metrics of this package. TemplateCollapse is that of 4-grams.
func Builtin() *Registry {
	r := new(Registry)
	byname.Fill(&r.table, map[string]byname.Entry[Metric]{
		"data":               {Value: Data, About: "mean, maximum and minimum of what training saw"},
		"reward_variance":    {Value: RewardVariance, About: "whether groups have a signal; falls before a collapse"},
		"explained_variance": {Value: ExplainedVariance, About: "how well the critic predicts returns"},
		"advantage_share":    {Value: AdvantageShare, About: "which part of the reward drives the updates"},
		"response_length":    {Value: ResponseLength, About: "how long responses are, and how many were truncated"},
		"template_collapse":  {Value: TemplateCollapse(4), About: "whether responses depend on the start state"},
	})
	return r
}

// New returns the metric with this name. An unknown name gives ErrUnknown and the
// nearest known one.
func (r *Registry) New(name string) (Metric, error) { return byname.Get(&r.table, name) }

// Measure runs the named metrics, or all of them in alphabetical order if none is named.
// If a metric fails, the others still run; the error is returned with their results in
// dst. A metric that reports NaN or infinity has failed, and such a number is left out.
func (r *Registry) Measure(dst map[string]float64, b *Batch, names ...string) error {
	if len(names) == 0 {
		names = r.Names()
	}
	if err := b.check(); err != nil {
		return err // once, not once per metric
	}
	if dst == nil {
		return errors.New("diagnose: the map of results is nil, must be made")
	}
	var errs []error
	for _, name := range names {
		m, err := r.New(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found := map[string]float64{}
		if err := m(found, b); err != nil {
			errs = append(errs, fmt.Errorf("diagnose: metric %q: %w", name, err))
		}
		for _, key := range slices.Sorted(maps.Keys(found)) {
			if !floats.Finite(found[key]) {
				errs = append(errs, fmt.Errorf("diagnose: metric %q: %s = %v: %w", name, key, found[key], ErrNotFinite))
				continue
			}
			dst[key] = found[key]
		}
	}
	return errors.Join(errs...)
}
