package net

import (
	"errors"
	"fmt"
)

// ErrNotFinite is wrapped by errors about weights, log-probs, entropies or values that
// are NaN or infinite.
var ErrNotFinite = errors.New("not a finite number")

// CheckFinite returns an error if one of the numbers is NaN or infinite.
func CheckFinite(name string, x []float32) error {
	// v−v is 0 for finite v, else NaN, which stays in the sum. Four sums keep the
	// processor busy: weights have billions of entries.
	var a, b, c, d float32
	n := len(x) &^ 3
	for i := 0; i < n; i += 4 {
		q := x[i : i+4 : i+4]
		a, b, c, d = a+(q[0]-q[0]), b+(q[1]-q[1]), c+(q[2]-q[2]), d+(q[3]-q[3])
	}
	for _, v := range x[n:] {
		a += v - v
	}
	if a+b+c+d == 0 {
		return nil
	}
	for i, v := range x {
		if v-v != 0 {
			return fmt.Errorf("%s: entry %d is %v, must be finite: %w", name, i, v, ErrNotFinite)
		}
	}
	return nil
}
