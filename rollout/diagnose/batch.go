package diagnose

import (
	"cmp"
	"errors"
	"fmt"

	"vagen/internal/floats"
	"vagen/reward"
)

// Errors for callers to distinguish.
var (
	// ErrLength means that columns of a batch differ in length.
	ErrLength = errors.New("lengths do not agree")
	// ErrNotFinite means that a number that a metric reads is NaN or infinite.
	ErrNotFinite = errors.New("not a finite number")
	// ErrSetting means that a setting is outside its range.
	ErrSetting = errors.New("setting not allowed")
	// ErrUnknown means that no metric has this name.
	ErrUnknown = errors.New("unknown name")
	// ErrDuplicate means that a name is already registered.
	ErrDuplicate = errors.New("the name is already registered")
)

// Batch is the input of metrics. Every column may be nil; a metric that needs it then
// writes nothing. Token columns are concatenated without padding, one entry per token,
// including context.
type Batch struct {
	// Per row.
	Group      []string       // start state
	Trajectory []string       // rollout, if one has several rows
	Score      []float64      // sum of the row's scores, as given by the environment
	Shaped     []float64      // same after KL shaping
	Parts      []reward.Parts // the parts of its score
	Truncated  []bool         // a limit ended the response, not the model
	Text       []string       // the response, preferably only its reasoning

	// Per token. Offsets has one entry more than there are rows.
	Offsets   []int
	Mask      []bool    // tokens that count: written by the model
	ValueMask []bool    // where Target holds a return; nil means Mask
	Advantage []float32 // as used to train the policy
	Value     []float32 // the critic's prediction
	Target    []float32 // the return that the critic is trained on

	MaxLength int // longest response allowed; 0 means unknown
}

// Rows returns the number of rows.
func (b *Batch) Rows() int {
	if b.Offsets != nil {
		return max(len(b.Offsets)-1, 0)
	}
	return max(len(b.Group), len(b.Score), len(b.Shaped), len(b.Parts), len(b.Truncated), len(b.Text))
}

// check checks lengths and layout. Every exported metric calls it first, so that no
// metric reads beyond a column.
func (b *Batch) check() error {
	if b == nil {
		return fmt.Errorf("diagnose: the batch is nil: %w", ErrLength)
	}
	rows, tokens := b.Rows(), len(b.Mask)
	if b.Offsets != nil {
		if err := checkOffsets(b.Offsets, tokens); err != nil {
			return err
		}
	}
	return cmp.Or(
		length("group", b.Group, rows), length("trajectory", b.Trajectory, rows), length("score", b.Score, rows),
		length("shaped", b.Shaped, rows), length("parts", b.Parts, rows), length("truncated", b.Truncated, rows),
		length("text", b.Text, rows), length("value mask", b.ValueMask, tokens),
		length("advantage", b.Advantage, tokens), length("value", b.Value, tokens), length("target", b.Target, tokens),
	)
}

// length refuses a column that is neither nil nor of the given length.
func length[T any](name string, column []T, want int) error {
	if column != nil && len(column) != want {
		return fmt.Errorf("diagnose: %s has %d entries, must have %d: %w", name, len(column), want, ErrLength)
	}
	return nil
}

func checkOffsets(offsets []int, tokens int) error {
	if len(offsets) == 0 {
		return fmt.Errorf("diagnose: offsets are empty, must be one more than rows: %w", ErrLength)
	}
	last := 0
	for i, o := range offsets {
		if o < last || (i == 0 && o != 0) {
			return fmt.Errorf("diagnose: offsets[%d] = %d after %d, must start at 0 and not decrease: %w", i, o, last, ErrLength)
		}
		last = o
	}
	if last != tokens {
		return fmt.Errorf("diagnose: offsets end at %d, but the mask has %d tokens: %w", last, tokens, ErrLength)
	}
	return nil
}

// column yields the counted entries of a token column as float64.
func column(name string, x []float32, mask []bool) ([]float64, error) {
	out := make([]float64, 0, len(x))
	for i, m := range mask {
		if !m {
			continue
		}
		v := float64(x[i])
		if !floats.Finite(v) {
			return nil, fmt.Errorf("diagnose: %s of token %d: %v: %w", name, i, v, ErrNotFinite)
		}
		out = append(out, v)
	}
	return out, nil
}

func checkFinite(name string, x []float64) error {
	for i, v := range x {
		if !floats.Finite(v) {
			return fmt.Errorf("diagnose: %s of row %d: %v: %w", name, i, v, ErrNotFinite)
		}
	}
	return nil
}

// spread writes mean, max and min of x under a prefix; nothing if x is empty.
func spread(dst map[string]float64, prefix string, x []float64) {
	if len(x) == 0 {
		return
	}
	least, most, sum := x[0], x[0], 0.0
	for _, v := range x {
		least, most, sum = min(least, v), max(most, v), sum+v
	}
	dst[prefix+"/mean"] = sum / float64(len(x))
	dst[prefix+"/max"] = most
	dst[prefix+"/min"] = least
}
