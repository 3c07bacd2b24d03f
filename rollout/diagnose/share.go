package diagnose

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"vagen/internal/floats"
)

// AdvantageShare measures which part of the reward drives the updates. A row's influence
// on the policy is its advantage mass, divided among the parts by their distance from
// the mean for the row's start state. With
//
//	M_i   = Σ |A| over the counted tokens of row i
//	x_ik  = sum of part k in row i
//	d_ik  = |x_ik − mean of x_k over the row's group|   (over the batch, for a group of one)
//
// it writes for every part k, and for rows in which no part differs,
//
//	advantage_share/<k>        Σ_i M_i · d_ik / Σ_j d_ij, divided by Σ_i M_i
//	advantage_share/unexplained
//
// The shares add up to 1. A part that is the same for all rollouts of a group, such as a
// format reward that every rollout gets, has no share there however large it is. This is
// an attribution, not a gradient: mass that a critic or discounting moved between turns
// of a row stays with the row.
func AdvantageShare(dst map[string]float64, b *Batch) error {
	if err := b.check(); err != nil {
		return err
	}
	if b.Parts == nil || b.Advantage == nil || len(b.Offsets) < 2 {
		return nil
	}
	mass, total, err := advantageMass(b)
	if err != nil || total == 0 {
		return err
	}
	names, parts, err := partTable(b)
	if err != nil {
		return err
	}
	away := distances(b.Group, parts)
	share := make([]float64, len(names))
	unexplained := 0.0
	for row, m := range mass {
		sum := 0.0
		for k := range names {
			sum += away[k][row]
		}
		if sum == 0 {
			unexplained += m
			continue
		}
		for k := range names {
			share[k] += m * (away[k][row] / sum)
		}
	}
	for k, name := range names {
		dst["advantage_share/"+name] = share[k] / total
	}
	dst["advantage_share/unexplained"] = unexplained / total
	return nil
}

// advantageMass returns Σ |A| per row and over all rows.
func advantageMass(b *Batch) (mass []float64, total float64, err error) {
	if _, err := column("advantage", b.Advantage, b.Mask); err != nil {
		return nil, 0, err
	}
	mass = make([]float64, len(b.Offsets)-1)
	for r := range mass {
		for i := b.Offsets[r]; i < b.Offsets[r+1]; i++ {
			if b.Mask[i] {
				mass[r] += math.Abs(float64(b.Advantage[i]))
			}
		}
		total += mass[r]
	}
	return mass, total, nil
}

// partTable returns the names of all parts in order, and their sums by part and
// row.
func partTable(b *Batch) (names []string, parts [][]float64, err error) {
	index := map[string]int{}
	for row, ps := range b.Parts {
		for _, p := range ps {
			if !floats.Finite(p.Value) {
				return nil, nil, fmt.Errorf("diagnose: reward part %q of row %d: %v: %w", p.Name, row, p.Value, ErrNotFinite)
			}
			index[p.Name] = 0
		}
	}
	names = slices.Sorted(maps.Keys(index))
	for k, name := range names {
		index[name] = k
		parts = append(parts, make([]float64, len(b.Parts)))
	}
	for row, ps := range b.Parts {
		for _, p := range ps {
			parts[index[p.Name]][row] += p.Value
		}
	}
	return names, parts, nil
}

// distances returns d_ik by part and row. Distances below 1e-12 of the largest value are
// rounding errors of the mean and count as 0.
func distances(group []string, parts [][]float64) [][]float64 {
	key := func(row int) string {
		if group == nil {
			return "" // one group
		}
		return group[row]
	}
	out := make([][]float64, len(parts))
	for k, x := range parts {
		sum, n := map[string]float64{}, map[string]float64{}
		var all, largest float64
		for row, v := range x {
			sum[key(row)] += v
			n[key(row)]++
			all += v
			largest = max(largest, math.Abs(v))
		}
		out[k] = make([]float64, len(x))
		for row, v := range x {
			mean := sum[key(row)] / n[key(row)]
			if n[key(row)] == 1 {
				mean = all / float64(len(x))
			}
			if d := math.Abs(v - mean); d > 1e-12*largest {
				out[k][row] = d
			}
		}
	}
	return out
}
