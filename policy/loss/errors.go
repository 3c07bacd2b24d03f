package loss

import (
	"errors"
	"fmt"
	"slices"

	"vagen/internal/floats"
)

// Errors for callers to distinguish. Messages name the column, the row and the position.
var (
	// ErrLength means that columns of one batch differ in length, or that row
	// offsets do not tile them.
	ErrLength = errors.New("lengths do not agree")
	// ErrMissing means that a column that this loss needs is absent.
	ErrMissing = errors.New("column is missing")
	// ErrNotFinite means that a counted token holds NaN or infinity, or that the
	// loss itself overflowed there.
	ErrNotFinite = errors.New("not a finite number")
	// ErrSetting means that a hyperparameter is outside its range, or that two
	// of them contradict each other.
	ErrSetting = errors.New("setting not allowed")
	// ErrUnknown means that no loss, aggregation or divergence has this name.
	ErrUnknown = errors.New("unknown name")
	// ErrDuplicate means that a name is already registered.
	ErrDuplicate = errors.New("the name is already registered")
	// ErrTurn means that turn ids are not usable: negative on a counted token,
	// or decreasing inside a row.
	ErrTurn = errors.New("turn ids not usable")
)

// locate converts a flat index to row and position, for messages.
func locate(offsets []int, i int) (row, pos int) {
	next, _ := slices.BinarySearch(offsets, i+1)
	return next - 1, i - offsets[next-1]
}

func notFinite(what string, offsets []int, i int, x float64) error {
	row, pos := locate(offsets, i)
	return fmt.Errorf("loss: %s: row %d, position %d: %v: %w", what, row, pos, x, ErrNotFinite)
}

func setting(format string, args ...any) error {
	return fmt.Errorf("loss: "+format+": %w", append(args, ErrSetting)...)
}

// checkLayout checks that offsets tile n tokens and that the mask covers them.
func checkLayout(offsets []int, mask []bool, n int) error {
	if len(offsets) == 0 {
		return fmt.Errorf("loss: offsets is empty, want one entry more than rows: %w", ErrLength)
	}
	if offsets[0] != 0 {
		return fmt.Errorf("loss: offsets[0] = %d, want 0: %w", offsets[0], ErrLength)
	}
	for i := 1; i < len(offsets); i++ {
		if offsets[i] < offsets[i-1] {
			return fmt.Errorf("loss: offsets[%d] = %d after %d, must not decrease: %w", i, offsets[i], offsets[i-1], ErrLength)
		}
	}
	if last := offsets[len(offsets)-1]; last != n {
		return fmt.Errorf("loss: offsets end at %d, but there are %d tokens: %w", last, n, ErrLength)
	}
	if len(mask) != n {
		return fmt.Errorf("loss: mask has %d entries for %d tokens: %w", len(mask), n, ErrLength)
	}
	return nil
}

// checkColumn checks the length, and that counted tokens are finite. An optional column
// may be absent.
func checkColumn[T Float](name string, x []T, offsets []int, mask []bool, optional bool) error {
	if x == nil && optional {
		return nil
	}
	if x == nil && len(mask) > 0 {
		return fmt.Errorf("loss: %s: %w", name, ErrMissing)
	}
	if len(x) != len(mask) {
		return fmt.Errorf("loss: %s has %d entries for %d tokens: %w", name, len(x), len(mask), ErrLength)
	}
	for i, v := range x {
		if mask[i] && !floats.Finite(v) {
			return notFinite(name, offsets, i, float64(v))
		}
	}
	return nil
}
