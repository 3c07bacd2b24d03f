package filter

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"vagen/internal/floats"
)

// Errors that callers may want to tell apart.
var (
	// ErrLength means that the slices of a batch differ in length.
	ErrLength = errors.New("lengths do not agree")
	// ErrNotFinite means that a return is NaN or infinite.
	ErrNotFinite = errors.New("not a finite number")
	// ErrSetting means that a setting is out of range, has the wrong type, or is
	// unknown to the filter.
	ErrSetting = errors.New("setting not allowed")
	// ErrUnknown means that no filter has this name.
	ErrUnknown = errors.New("unknown name")
	// ErrDuplicate means that a name is already registered.
	ErrDuplicate = errors.New("the name is already registered")
)

// Filter selects rows of a batch. Implementations must be deterministic, must not
// change the batch, and must be safe for concurrent use.
type Filter interface {
	// Filter overwrites dst. dst.Keep is in increasing order.
	Filter(dst *Result, b *Batch) error
}

var (
	_ Filter = None{}
	_ Filter = TopFraction{}
	_ Filter = TopK{}
	_ Filter = TopP{}
	_ Filter = MinP{}
	_ Filter = DropEqual{}
)

// Batch is the input of filters: one entry per training row.
type Batch struct {
	Group  []string  // start state that the row's rollout began from
	Return []float64 // sum of the row's scores
	// Trajectory, when not nil, is the rollout that each row belongs to, for
	// rollouts of several rows. Returns of one trajectory of a group are added up
	// before groups are compared, so that the variance is between rollouts and not
	// between turns. nil makes every row a trajectory.
	Trajectory []string
}

// Result holds the rows to train on.
type Result struct {
	Keep    []int              // indices of the rows to keep, increasing
	Scale   float64            // factor for the advantages of kept rows
	Metrics map[string]float64 // values to log, by metric name
}

// reset empties the result and reuses its memory.
func (r *Result) reset() error {
	if r == nil {
		return errors.New("filter: the result is nil, must be set")
	}
	r.Keep, r.Scale = r.Keep[:0], 1
	if r.Metrics == nil {
		r.Metrics = map[string]float64{}
	}
	clear(r.Metrics)
	return nil
}

// Group describes the rows of a batch with one start state.
type Group struct {
	Key          string  // of its start state, as the batch names it
	Rows         []int   // indices of its rows, increasing
	Trajectories int     // rollouts
	Variance     float64 // of the rollouts' returns, at most math.MaxFloat64
	Min, Max     float64 // smallest and largest return of a rollout

	spread float64 // standard deviation, where the variance is too large for a float64
}

// Groups sorts the rows of a batch into groups, in order of first appearance.
// The variance is Σ (x − mean)²/(n − ddof) over the n rollouts of the group, and
// 0 for a group of one or of no more than ddof.
func Groups(b *Batch, ddof int) ([]Group, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	if ddof < 0 {
		return nil, fmt.Errorf("filter: ddof = %d, want 0 or more: %w", ddof, ErrSetting)
	}
	var groups []Group
	var returns [][]float64 // of each group's rollouts
	index := map[string]int{}
	slot := map[[2]string]int{}
	for row, key := range b.Group {
		g, ok := index[key]
		if !ok {
			g = len(groups)
			index[key] = g
			groups, returns = append(groups, Group{Key: key}), append(returns, nil)
		}
		groups[g].Rows = append(groups[g].Rows, row)
		if b.Trajectory != nil {
			id := [2]string{key, b.Trajectory[row]}
			if s, seen := slot[id]; seen {
				returns[g][s] += b.Return[row]
				continue
			}
			slot[id] = len(returns[g])
		}
		returns[g] = append(returns[g], b.Return[row])
	}
	for g := range groups {
		for _, x := range returns[g] {
			if math.IsInf(x, 0) {
				return nil, fmt.Errorf("filter: returns of a trajectory (group %q) add up to %v: %w", groups[g].Key, x,
					ErrNotFinite)
			}
		}
		groups[g].measure(returns[g], ddof)
	}
	return groups, nil
}

func (g *Group) measure(returns []float64, ddof int) {
	n := len(returns)
	g.Trajectories, g.Min, g.Max = n, slices.Min(returns), slices.Max(returns)
	if n <= 1 || n <= ddof {
		return
	}
	g.Variance = floats.MomentsOf(returns).M2 / float64(n-ddof)
	if !floats.Finite(g.Variance) {
		d := deviation(returns, max(g.Max, -g.Min), ddof)
		if g.Variance = d * d; math.IsInf(g.Variance, 0) {
			g.Variance, g.spread = math.MaxFloat64, d
		}
	}
}

// deviation is the standard deviation of returns; size is the largest absolute value
// of them. It scales them to [−1, 1], so that squares and sums are finite.
func deviation(returns []float64, size float64, ddof int) float64 {
	var mean, sum float64
	n := float64(len(returns))
	for _, x := range returns {
		mean += x / size / n
	}
	for _, x := range returns {
		sum += (x/size - mean) * (x/size - mean)
	}
	return min(math.Sqrt(sum/(n-float64(ddof)))*size, math.MaxFloat64)
}

func (b *Batch) check() error {
	if b == nil {
		return fmt.Errorf("filter: the batch is nil: %w", ErrLength)
	}
	if len(b.Return) != len(b.Group) {
		return fmt.Errorf("filter: %d returns for %d rows: %w", len(b.Return), len(b.Group), ErrLength)
	}
	if b.Trajectory != nil && len(b.Trajectory) != len(b.Group) {
		return fmt.Errorf("filter: %d trajectories for %d rows: %w", len(b.Trajectory), len(b.Group), ErrLength)
	}
	for row, x := range b.Return {
		if !floats.Finite(x) {
			return fmt.Errorf("filter: return of row %d (group %q): %v: %w", row, b.Group[row], x, ErrNotFinite)
		}
	}
	return nil
}

// None keeps every row.
type None struct{}

// Filter implements [Filter].
func (None) Filter(dst *Result, b *Batch) error {
	if err := b.check(); err != nil {
		return err
	}
	if err := dst.reset(); err != nil {
		return err
	}
	for row := range b.Group {
		dst.Keep = append(dst.Keep, row)
	}
	return nil
}

// MeanVariance is the mean of the groups' variances, VAGEN's reward_variance
// metric; 0 for no groups.
func MeanVariance(groups []Group) float64 {
	if len(groups) == 0 {
		return 0
	}
	variances := make([]float64, len(groups))
	for g := range groups {
		variances[g] = groups[g].Variance
	}
	return mean(variances)
}

// mean is the mean of finite numbers, whose sum may be too large for a float64.
func mean(x []float64) float64 {
	var sum, parts float64
	for _, v := range x {
		sum, parts = sum+v, parts+v/float64(len(x))
	}
	if math.IsInf(sum, 0) {
		return min(parts, math.MaxFloat64)
	}
	return sum / float64(len(x))
}
