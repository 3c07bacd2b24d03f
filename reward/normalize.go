package reward

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"vagen/internal/floats"
)

// Clip moves values into [low, high] in place and returns how many it moved. NaN
// stays NaN.
func Clip(values []float64, low, high float64) (moved int) {
	for i, v := range values {
		if c := min(max(v, low), high); c != v && !math.IsNaN(v) {
			values[i] = c
			moved++
		}
	}
	return moved
}

// Scope says which rewards are normalised together.
type Scope string

// The scopes.
const (
	ByBatch       Scope = "batch"       // all of a call
	ByGroup       Scope = "group"       // those with the same group key
	ByEnvironment Scope = "environment" // those with the same environment key
)

// Normalizer scales rewards to a common scale:
//
//	(x − mean) / (deviation + Epsilon)
//
// mean and deviation (n−1 in the denominator) are those of the values of a scope
// in the call or, if Running, those of all calls so far, this one included. A scope
// with fewer than two values is not changed: it has no deviation.
//
// The zero value divides by the deviation of the batch and subtracts nothing. The
// state of a running Normalizer is saved and restored as JSON.
type Normalizer struct {
	Scope   Scope   // "" means ByBatch
	Center  bool    // subtract the mean
	Running bool    // keep statistics over calls
	Epsilon float64 // keeps equal values from being divided by zero; 1e-8 is usual
	Limit   float64 // results are clipped to ±Limit; 0 is no limit

	seen map[string]floats.Moments
}

// Apply normalises values in place. keys holds the group or environment of each value;
// ByBatch needs none. Statistics are computed in the order of the values. It is an
// error if a value, a mean or a sum of squares is not finite, or Epsilon or Limit is
// negative. After an error values and state are unchanged.
func (n *Normalizer) Apply(values []float64, keys []string) error {
	switch n.Scope {
	case "", ByBatch:
		keys = nil
	case ByGroup, ByEnvironment:
		if len(keys) != len(values) {
			return fmt.Errorf("reward: normalise: %d keys for %d values", len(keys), len(values))
		}
	default:
		return fmt.Errorf("reward: normalise: scope %q is not one of %s, %s, %s", n.Scope, ByBatch, ByGroup, ByEnvironment)
	}
	if !(n.Epsilon >= 0) || !(n.Limit >= 0) {
		return fmt.Errorf("reward: normalise: epsilon %v and limit %v must not be negative", n.Epsilon, n.Limit)
	}
	key := func(i int) string {
		if keys == nil {
			return ""
		}
		return keys[i]
	}
	sums := make(map[string]*floats.Sums)
	for i, x := range values {
		if !floats.Finite(x) {
			return fmt.Errorf("reward: normalise: value %d is %v, it must be finite", i, x)
		}
		if sums[key(i)] == nil {
			sums[key(i)] = new(floats.Sums)
		}
		sums[key(i)].Add(x)
	}
	now := make(map[string]floats.Moments)
	for _, k := range slices.Sorted(maps.Keys(sums)) {
		var m floats.Moments
		if n.Running {
			m = n.seen[k]
		}
		m.Merge(sums[k].Moments())
		if now[k] = m; !floats.Finite(m.Mean) || !floats.Finite(m.M2) {
			return fmt.Errorf("reward: normalise: key %q: %v values have mean %v and squares %v, which must be finite",
				k, m.N, m.Mean, m.M2)
		}
	}
	if n.Running {
		if n.seen == nil {
			n.seen = make(map[string]floats.Moments)
		}
		maps.Copy(n.seen, now)
	}
	for i, x := range values {
		values[i] = n.scale(x, now[key(i)])
	}
	return nil
}

// Clone returns a Normalizer with the same settings and its own copy of the statistics; nil of nil.
func (n *Normalizer) Clone() *Normalizer {
	if n == nil {
		return nil
	}
	out := *n
	out.seen = maps.Clone(n.seen)
	return &out
}

func (n *Normalizer) scale(x float64, m floats.Moments) float64 {
	if m.N > 1 {
		if n.Center {
			x -= m.Mean
		}
		// Equal values have no deviation; without Epsilon they are not divided.
		if d := math.Sqrt(m.Variance()) + n.Epsilon; d > 0 {
			x /= d
		}
	}
	if n.Limit > 0 {
		x = min(max(x, -n.Limit), n.Limit)
	}
	return x
}

var (
	_ json.Marshaler   = (*Normalizer)(nil)
	_ json.Unmarshaler = (*Normalizer)(nil)
)

// MarshalJSON returns the running statistics by key.
func (n *Normalizer) MarshalJSON() ([]byte, error) {
	if n.seen == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(n.seen)
}

// UnmarshalJSON restores statistics that MarshalJSON returned. Settings do not change.
func (n *Normalizer) UnmarshalJSON(data []byte) error {
	var seen map[string]floats.Moments
	if err := json.Unmarshal(data, &seen); err != nil {
		return fmt.Errorf("reward: normaliser state: %w", err)
	}
	for _, k := range slices.Sorted(maps.Keys(seen)) {
		if m := seen[k]; m.N < 0 || !(m.M2 >= 0) || !floats.Finite(m.M2) || !floats.Finite(m.Mean) {
			return fmt.Errorf("reward: normaliser state: key %q: count %v, mean %v, m2 %v; all must be finite, count and m2 not negative",
				k, m.N, m.Mean, m.M2)
		}
	}
	n.seen = seen
	return nil
}
