package diagnose

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"vagen/internal/byname"
)

// Metric measures a batch and writes the results to dst, under names of its own. If the
// batch lacks a column that it needs, it writes nothing. It must not change the batch.
type Metric func(dst map[string]float64, b *Batch) error

// Options are the settings of the built-in metrics.
type Options struct {
	ClipLow, ClipHigh float64 // clip range of the policy loss, ≥ 0
	NGram             int     // words per n-gram of template_collapse, ≥ 1
}

// DefaultOptions holds a clip of ±0.2 and 4-grams.
func DefaultOptions() Options { return Options{ClipLow: 0.2, ClipHigh: 0.2, NGram: 4} }

var entries = byname.Kind{Package: "diagnose", Entry: "metric", Unknown: ErrUnknown, Duplicate: ErrDuplicate}

// Registry holds metrics by name. The zero value is empty and ready to use;
// [Builtin] returns one with the metrics of this package. It is safe for
// concurrent use.
type Registry struct {
	metrics byname.Table[Metric]
}

// Builtin returns a new registry with the metrics of this package.
func Builtin(o Options) (*Registry, error) {
	if !(o.ClipLow >= 0) || !(o.ClipHigh >= 0) || !finite(o.ClipLow+o.ClipHigh) {
		return nil, fmt.Errorf("diagnose: ClipLow, ClipHigh = %v, %v, want 0 or more: %w", o.ClipLow, o.ClipHigh, ErrSetting)
	}
	if o.NGram < 1 {
		return nil, fmt.Errorf("diagnose: NGram = %d, want 1 or more: %w", o.NGram, ErrSetting)
	}
	r := new(Registry)
	r.metrics.Fill(map[string]Metric{
		"data":               Data,
		"reward_variance":    RewardVariance,
		"entropy":            Entropy,
		"clip_fraction":      ClipFraction(o.ClipLow, o.ClipHigh),
		"approx_kl":          ApproxKL,
		"explained_variance": ExplainedVariance,
		"advantage_share":    AdvantageShare,
		"response_length":    ResponseLength,
		"template_collapse":  TemplateCollapse(o.NGram),
		"mutual_information": MutualInformation,
	})
	return r, nil
}

// Register adds a metric under a name. The error wraps ErrDuplicate when the name is
// taken.
func (r *Registry) Register(name string, m Metric) error {
	return r.metrics.Register(entries, name, m)
}

// New returns the metric with this name. An unknown name gives ErrUnknown and the
// nearest known one.
func (r *Registry) New(name string) (Metric, error) { return r.metrics.Get(entries, name) }

// Names returns the known names in alphabetical order.
func (r *Registry) Names() []string { return r.metrics.Names() }

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
			if !finite(found[key]) {
				errs = append(errs, fmt.Errorf("diagnose: metric %q: %s = %v: %w", name, key, found[key], ErrNotFinite))
				continue
			}
			dst[key] = found[key]
		}
	}
	return errors.Join(errs...)
}
