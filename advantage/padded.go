package advantage

import (
	"fmt"
	"math"
)

// Padded holds rows as other trainers have them: tensors of shape [rows, length] in
// row-major order, with padding on either side. Columns may be nil as in a Batch, but
// for Rewards.
type Padded[T float32 | float64] struct {
	Length int // tokens per row, padding included

	Rewards, Values                         []T    // see Batch
	Attention, Loss, Response, GAE, TurnEnd []bool // false at padding
	Group, Trajectory, Turn                 []int  // one per row
}

// FromPadded makes a batch of padded rows. The padding stays in it, marked by Attention, so
// that a Result has the same shape [rows, length]. Numbers are converted to float32.
//
// Columns of different lengths and a Length that does not divide them are an ErrLength.
func FromPadded[T float32 | float64](p Padded[T]) (*Batch, error) {
	n := len(p.Rewards)
	if p.Length < 1 || n%p.Length != 0 {
		return nil, fmt.Errorf(
			"advantage: padded rows: length: %d tokens per row: %w (must be above 0 and divide the %d rewards)",
			p.Length, ErrLength, n,
		)
	}
	b := &Batch{
		Offsets: []int{0}, Rewards: convert[float32](p.Rewards), Values: convert[float32](p.Values),
		Attention: p.Attention, Loss: p.Loss, Response: p.Response, GAE: p.GAE, TurnEnd: p.TurnEnd,
		Group: p.Group, Trajectory: p.Trajectory, Turn: p.Turn,
	}
	for end := p.Length; end <= n; end += p.Length {
		b.Offsets = append(b.Offsets, end)
	}
	if err := b.Check(); err != nil {
		return nil, fmt.Errorf("advantage: padded rows: %w", err)
	}
	return b, nil
}

// ToPadded returns a per-token column of a batch, such as the Advantages of a Result, as a
// tensor of shape [rows, length] in row-major order: every row starts at the left and is
// followed by fill. A row longer than length and a column that does not have one number per
// token of the batch are an ErrLength.
func ToPadded[T float32 | float64](b *Batch, column []float32, length int, fill T) ([]T, error) {
	if b == nil {
		return nil, fmt.Errorf("advantage: to padded rows: batch: %w", ErrNil)
	}
	if err := checkOffsets(b.Offsets, len(column)); err != nil {
		return nil, fmt.Errorf("advantage: to padded rows: column of %d numbers: %w", len(column), err)
	}
	if rows := b.Rows(); rows > 0 && length > math.MaxInt32/rows {
		return nil, fmt.Errorf("advantage: to padded rows: %d rows of length %d: %w (at most %d numbers in all)",
			rows, length, ErrLength, math.MaxInt32)
	}
	out := make([]T, 0, b.Rows()*max(0, length))
	for i := range b.Rows() {
		start, end := b.Row(i)
		if end-start > length {
			return nil, fmt.Errorf("advantage: to padded rows: row %d: %d tokens: %w (length is %d)",
				i, end-start, ErrLength, length)
		}
		out = append(out, convert[T](column[start:end])...)
		for range length - (end - start) {
			out = append(out, fill)
		}
	}
	return out, nil
}

// convert returns numbers in another type, nil for nil.
func convert[To, From float32 | float64](x []From) []To {
	if x == nil {
		return nil
	}
	out := make([]To, len(x))
	for i, v := range x {
		out[i] = To(v)
	}
	return out
}
