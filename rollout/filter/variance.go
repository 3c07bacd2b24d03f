package filter

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"vagen/internal/nearest"
)

// Scaling is the factor for advantages when groups are dropped, because fewer groups
// give a noisier gradient.
type Scaling string

// The scalings, by the share of groups that is kept.
const (
	NoScaling Scaling = "none"   // 1
	Sqrt      Scaling = "sqrt"   // square root of the share
	Linear    Scaling = "linear" // the share
)

func (s Scaling) of(kept, all int) float64 {
	share := float64(kept) / float64(all)
	switch s {
	case Sqrt:
		return math.Sqrt(share)
	case Linear:
		return share
	}
	return 1
}

func (s Scaling) check() error {
	switch s {
	case "", NoScaling, Sqrt, Linear:
		return nil
	}
	return fmt.Errorf("scaling %q: %w%s (known: none, sqrt, linear)", string(s), ErrSetting,
		nearest.Hint(string(s), []string{"none", "sqrt", "linear"}))
}

// TopFraction keeps max(1, ⌈Fraction·groups⌉) groups, most variance first.
type TopFraction struct {
	Fraction float64 // share of groups, 0 to 1
	DDOF     int     // see Groups
	Scaling  Scaling // "" is none
}

// DefaultTopFraction keeps a fifth of the groups, as VAGEN lite does.
func DefaultTopFraction() TopFraction { return TopFraction{Fraction: 0.2, Scaling: NoScaling} }

func (f TopFraction) check() error { return checkShare("topk", f.Fraction) }

// Filter implements [Filter].
func (f TopFraction) Filter(dst *Result, b *Batch) error {
	return ranked(dst, b, "topk", f.DDOF, f.Scaling, f.check(), func(r *ranking) {
		r.truncate(max(1, int(math.Ceil(float64(len(r.groups))*f.Fraction))))
	})
}

// TopK keeps the K groups with the most variance, or all when there are fewer.
type TopK struct {
	K       int     // groups, ≥ 1
	DDOF    int     // see Groups
	Scaling Scaling // of the loss, for what was dropped
}

func (f TopK) check() error {
	if f.K < 1 {
		return fmt.Errorf("k = %d, want 1 or more: %w", f.K, ErrSetting)
	}
	return nil
}

// Filter implements [Filter].
func (f TopK) Filter(dst *Result, b *Batch) error {
	return ranked(dst, b, "top_k", f.DDOF, f.Scaling, f.check(), func(r *ranking) { r.truncate(f.K) })
}

// TopP keeps groups, most variance first, until they have the share P of the total
// variance of all groups; at least one. When no group has any variance, all rows are
// kept and nothing is scaled.
type TopP struct {
	P       float64 // share of variance, 0 to 1
	DDOF    int     // see Groups
	Scaling Scaling // of the loss, for what was dropped
}

// DefaultTopP has VAGEN lite's numbers: 0.9 of the variance, scaled by the
// square root of the kept share of groups.
func DefaultTopP() TopP { return TopP{P: 0.9, Scaling: Sqrt} }

func (f TopP) check() error { return checkShare("top_p", f.P) }

// Filter implements [Filter].
func (f TopP) Filter(dst *Result, b *Batch) error {
	return ranked(dst, b, "top_p", f.DDOF, f.Scaling, f.check(), func(r *ranking) {
		if r.total <= 0 {
			return
		}
		n, held := 0, 0.0
		for ; n < len(r.order) && held < f.P*r.total; n++ {
			held += r.weight[r.order[n]]
		}
		dst.Metrics["filter/train/top_p/cumulative_variance_ratio"] = held / r.total
		r.truncate(max(1, n))
	})
}

// MinP keeps groups whose variance is at least P times the largest. When no
// group has any variance, all rows are kept and nothing is scaled.
type MinP struct {
	P       float64 // share of the largest variance, 0 to 1
	DDOF    int     // see Groups
	Scaling Scaling // of the loss, for what was dropped
}

// DefaultMinP keeps groups with a tenth of the largest variance or more.
func DefaultMinP() MinP { return MinP{P: 0.1, Scaling: NoScaling} }

func (f MinP) check() error { return checkShare("min_p", f.P) }

// Filter implements [Filter].
func (f MinP) Filter(dst *Result, b *Batch) error {
	return ranked(dst, b, "min_p", f.DDOF, f.Scaling, f.check(), func(r *ranking) {
		n, least := 0, f.P*r.weight[r.order[0]]
		for n < len(r.order) && r.weight[r.order[n]] >= least {
			n++
		}
		r.truncate(n)
	})
}

// DropEqual drops groups whose rollouts all have the same return, also groups of one
// rollout. If that would drop every group, all rows are kept, unless KeepNone is set:
// then Keep is empty, and there is nothing to train on.
type DropEqual struct {
	Tolerance float64 // returns that differ by no more than this are equal, ≥ 0
	KeepNone  bool    // keep no row instead of all when every group would be dropped
	Scaling   Scaling // of the loss, for what was dropped
}

// DefaultDropEqual treats returns as equal that differ only by rounding.
func DefaultDropEqual() DropEqual { return DropEqual{Tolerance: 1e-9, Scaling: NoScaling} }

func (f DropEqual) check() error {
	if !(f.Tolerance >= 0) || math.IsInf(f.Tolerance, 0) {
		return fmt.Errorf("tolerance = %v, want 0 or more: %w", f.Tolerance, ErrSetting)
	}
	return nil
}

// Filter implements [Filter].
func (f DropEqual) Filter(dst *Result, b *Batch) error {
	return ranked(dst, b, "drop_equal", 0, f.Scaling, f.check(), func(r *ranking) {
		differ := func(g int) bool { return r.groups[g].Max-r.groups[g].Min > f.Tolerance }
		var kept []int
		for _, g := range r.order {
			if differ(g) {
				kept = append(kept, g)
			}
		}
		if len(kept) > 0 || f.KeepNone {
			r.order = kept
		}
	})
}

// ranking is the state of a filter that picks groups by variance. order holds
// the groups still kept, most variance first.
type ranking struct {
	groups []Group
	order  []int
	weight []float64 // by group: its variance, in units in which the total is finite
	total  float64   // weight of all groups, added up in order of appearance
}

func newRanking(groups []Group) *ranking {
	r := &ranking{groups: groups, order: make([]int, len(groups)), weight: make([]float64, len(groups))}
	for g := range groups {
		r.order[g], r.weight[g] = g, groups[g].Variance
		r.total += groups[g].Variance
	}
	slices.SortStableFunc(r.order, func(i, j int) int {
		return cmp.Or(cmp.Compare(groups[j].Variance, groups[i].Variance), cmp.Compare(groups[j].spread, groups[i].spread))
	})
	// If a variance or their sum is too large for a float64, weights are in units of
	// the largest variance.
	if most := groups[r.order[0]].deviation(); math.IsInf(r.total, 0) || groups[r.order[0]].spread > 0 {
		r.total = 0
		for g := range groups {
			share := groups[g].deviation() / most
			r.weight[g] = share * share
			r.total += r.weight[g]
		}
	}
	return r
}

// deviation is the standard deviation of the rollouts' returns.
func (g *Group) deviation() float64 {
	if g.spread > 0 {
		return g.spread
	}
	return math.Sqrt(g.Variance)
}

func (r *ranking) truncate(n int) { r.order = r.order[:min(n, len(r.order))] }

// ranked runs a filter: it ranks the groups, calls pick to shorten the order, and
// writes the rows and metrics of the kept groups to dst.
func ranked(dst *Result, b *Batch, name string, ddof int, scaling Scaling, bad error, pick func(*ranking)) error {
	if bad == nil {
		bad = scaling.check()
	}
	if bad != nil {
		return fmt.Errorf("filter: %w", bad)
	}
	groups, err := Groups(b, ddof)
	if err != nil {
		return err
	}
	if err := dst.reset(); err != nil {
		return err
	}
	if len(groups) == 0 {
		return nil
	}
	r := newRanking(groups)
	pick(r)
	for _, g := range r.order {
		dst.Keep = append(dst.Keep, groups[g].Rows...)
	}
	slices.Sort(dst.Keep)
	if kept := len(r.order); kept > 0 && kept < len(groups) {
		dst.Scale = scaling.of(kept, len(groups))
	}
	dst.describe(name, r, len(b.Group))
	return nil
}

// describe fills the metrics under VAGEN's names.
func (r *Result) describe(name string, k *ranking, rows int) {
	all := make([]int, len(k.groups))
	for g := range all {
		all[g] = g
	}
	r.variances("filter/train/original/", k.groups, all)
	r.variances("filter/train/"+name+"/", k.groups, k.order)
	for metric, v := range map[string]float64{
		"filter/train/original/batch_size":              float64(rows),
		"filter/train/filtered/batch_size":              float64(len(r.Keep)),
		"filter/train/" + name + "/num_selected_groups": float64(len(k.order)),
		"filter/train/" + name + "/num_total_groups":    float64(len(k.groups)),
		"filter/train/" + name + "/loss_scale":          r.Scale,
	} {
		r.Metrics[metric] = v
	}
}

func (r *Result) variances(prefix string, groups []Group, of []int) {
	if len(of) == 0 {
		return
	}
	variances := make([]float64, len(of))
	for i, g := range of {
		variances[i] = groups[g].Variance
	}
	r.Metrics[prefix+"mean_variance"] = mean(variances)
	r.Metrics[prefix+"min_variance"] = slices.Min(variances)
	r.Metrics[prefix+"max_variance"] = slices.Max(variances)
}

func checkShare(key string, x float64) error {
	if !(x >= 0 && x <= 1) {
		return fmt.Errorf("%s = %v, want 0 to 1: %w", key, x, ErrSetting)
	}
	return nil
}
