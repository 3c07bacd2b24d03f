package loss

import (
	"fmt"
	"math"
	"strings"

	"vagen/internal/nearest"
)

// Mode is the aggregation of per-token losses to one number. The names are those of
// verl's loss_agg_mode. Let m be the mask, ℓ the per-token loss, and count only
// rows with a counted token:
//
//	token-mean               Σ m·ℓ / Σ m                      every token weighs the same
//	token-sum                Σ m·ℓ                            the same; the step grows with the batch
//	seq-mean-token-sum       mean over rows of Σ m·ℓ          long rows weigh more
//	seq-mean-token-mean      mean over rows of Σ m·ℓ / Σ m    every row weighs the same (GRPO)
//	prompt-mean              the same over prompts            every prompt weighs the same, whatever its rows (SkyRL)
//	seq-mean-token-sum-norm  Σ m·ℓ / Width                    constant divisor (Dr. GRPO, arXiv:2503.20783)
//
// verl 0.9.1 divides the last one by the number of rows, too; a caller who wants that multiplies Width by it.
// The empty Mode is token-mean.
type Mode string

// The aggregation modes.
const (
	TokenMean           Mode = "token-mean"
	TokenSum            Mode = "token-sum"
	SeqMeanTokenSum     Mode = "seq-mean-token-sum"
	SeqMeanTokenMean    Mode = "seq-mean-token-mean"
	PromptMean          Mode = "prompt-mean"
	SeqMeanTokenSumNorm Mode = "seq-mean-token-sum-norm"
)

var modeNames = []string{string(TokenMean), string(TokenSum), string(SeqMeanTokenSum), string(SeqMeanTokenMean),
	string(PromptMean), string(SeqMeanTokenSumNorm)}

// Norm is the contribution of a micro-batch to its update.
// The zero value treats it as the whole update. At most one of the three
// choices may be set:
//
//   - Accumulation n: the mean inside the micro-batch, divided by n. This is
//     what VAGEN's code does. With one row per micro-batch an update is the
//     mean over rows of per-row means, whatever the Mode says.
//   - MiniBatch n: the mean inside the micro-batch, times its rows / n, for
//     micro-batches of unequal size.
//   - Tokens and Rows: sums divided by the counts of the whole update, so that the
//     split into micro-batches does not matter. This is the formula of the papers.
//     Token-mean needs Tokens, the seq-mean modes need Rows (rows with a counted token). Not for prompt-mean.
type Norm struct {
	Accumulation int // micro-batches in the update
	MiniBatch    int // rows in the update, empty ones included
	Tokens       int // counted tokens in the update
	Rows         int // rows with a counted token in the update
	// Workers is the number of data-parallel workers whose gradients will be
	// averaged; it multiplies the loss, because Tokens and Rows are counted over
	// all of them. 0 means 1.
	Workers int
}

// Aggregation aggregates per-token losses to the loss of a micro-batch.
// The zero value is token-mean over a batch taken at once.
type Aggregation struct {
	Mode  Mode    // how tokens and rows of the batch are averaged
	Width float64 // divisor of seq-mean-token-sum-norm, e.g. the longest response allowed; > 0 there
	Norm  Norm    // what the batch contributes to the update
	// Prompts has the prompt of each row, for prompt-mean; rows of one prompt may be anywhere in the batch.
	Prompts []int
}

// Weights writes one weight per token to dst (reused if its capacity suffices) and
// returns it with the factor that Norm requires, such that
//
//	loss = factor · Σ weight·ℓ,   ∂loss/∂ℓ = factor·weight
//
// Weights of tokens that do not count are zero, so a device graph needs one multiply and
// one sum for every mode. For a batch without a counted token all weights are zero, and
// so are loss and gradient.
func (a Aggregation) Weights(dst []float64, offsets []int, mask []bool) ([]float64, float64, error) {
	if err := a.check(); err != nil {
		return dst, 0, err
	}
	if err := checkLayout(offsets, mask, len(mask)); err != nil {
		return dst, 0, err
	}
	tokens, rows := count(offsets, mask)
	prompts, err := a.prompts(offsets, mask)
	if err != nil {
		return dst, 0, err
	}
	if prompts != nil {
		rows = len(prompts)
	}
	perRow, err := a.divisor(tokens, rows)
	if err != nil {
		return dst, 0, err
	}
	dst = zeros(dst, len(mask))
	for r := range len(offsets) - 1 {
		w := 1 / perRow
		lo, hi := offsets[r], offsets[r+1]
		switch a.Mode {
		case SeqMeanTokenMean:
			w /= float64(countTrue(mask[lo:hi]))
		case PromptMean:
			w /= float64(prompts[a.Prompts[r]])
		}
		for i := lo; i < hi; i++ {
			if mask[i] {
				dst[i] = w
			}
		}
	}
	return dst, a.factor(len(offsets) - 1), nil
}

// prompts returns the counted tokens of each prompt that has any; nil if the mode is another than prompt-mean.
func (a Aggregation) prompts(offsets []int, mask []bool) (map[int]int, error) {
	if a.Mode != PromptMean {
		return nil, nil
	}
	if n := len(offsets) - 1; len(a.Prompts) != n {
		return nil, fmt.Errorf("loss: aggregation: %s with %d prompts for %d rows: %w", PromptMean, len(a.Prompts), n,
			ErrLength)
	}
	out := map[int]int{}
	for r, prompt := range a.Prompts {
		if n := countTrue(mask[offsets[r]:offsets[r+1]]); n > 0 {
			out[prompt] += n
		}
	}
	return out, nil
}

// divisor is the divisor of the sum over tokens (or over rows).
func (a Aggregation) divisor(tokens, rows int) (float64, error) {
	n := a.Norm
	whole := n.Tokens > 0 || n.Rows > 0
	switch a.Mode {
	case TokenMean, "":
		if !whole {
			return float64(tokens), nil
		}
		if n.Tokens < tokens {
			return 0, setting("aggregation: %s over the whole update needs Norm.Tokens >= the %d counted here, got %d",
				TokenMean, tokens, n.Tokens)
		}
		return float64(n.Tokens), nil
	case SeqMeanTokenSum, SeqMeanTokenMean:
		if !whole {
			return float64(rows), nil
		}
		if n.Rows < rows {
			return 0, setting("aggregation: %s over the whole update needs Norm.Rows >= the %d counted here, got %d", a.Mode,
				rows, n.Rows)
		}
		return float64(n.Rows), nil
	case PromptMean:
		return float64(rows), nil
	case TokenSum:
		return 1, nil
	default:
		if !(a.Width > 0) || math.IsInf(a.Width, 0) {
			return 0, setting("aggregation: %s needs Width > 0, got %v", a.Mode, a.Width)
		}
		return a.Width, nil
	}
}

func (a Aggregation) factor(rows int) float64 {
	f := 1.0
	if a.Norm.Accumulation > 0 {
		f /= float64(a.Norm.Accumulation)
	}
	if a.Norm.MiniBatch > 0 {
		f *= float64(rows) / float64(a.Norm.MiniBatch)
	}
	if a.Norm.Workers > 0 {
		f *= float64(a.Norm.Workers)
	}
	return f
}

func (a Aggregation) check() error {
	switch a.Mode {
	case "", TokenMean, TokenSum, SeqMeanTokenSum, SeqMeanTokenMean, PromptMean, SeqMeanTokenSumNorm:
	default:
		return fmt.Errorf("loss: aggregation %q: %w%s (known: %s)", a.Mode, ErrUnknown,
			nearest.Hint(string(a.Mode), modeNames), strings.Join(modeNames, ", "))
	}
	n := a.Norm
	for _, v := range [...]struct {
		name string
		n    int
	}{{"Accumulation", n.Accumulation}, {"MiniBatch", n.MiniBatch}, {"Tokens", n.Tokens}, {"Rows", n.Rows},
		{"Workers", n.Workers}} {
		if v.n < 0 {
			return setting("aggregation: Norm.%s = %d, want 0 or more", v.name, v.n)
		}
	}
	chosen := 0
	for _, set := range [...]bool{n.Accumulation > 0, n.MiniBatch > 0, n.Tokens > 0 || n.Rows > 0} {
		if set {
			chosen++
		}
	}
	if whole := n.Tokens > 0 || n.Rows > 0; whole && a.Mode == PromptMean {
		return setting("aggregation: Norm sets %+v, want neither Tokens nor Rows with %s, which counts prompts", n,
			PromptMean)
	}
	if chosen > 1 {
		return setting("aggregation: Norm sets %+v, want only one of Accumulation, MiniBatch, and Tokens with Rows", n)
	}
	return nil
}

// count returns the counted tokens and the rows that have any.
func count(offsets []int, mask []bool) (tokens, rows int) {
	for r := range len(offsets) - 1 {
		if n := countTrue(mask[offsets[r]:offsets[r+1]]); n > 0 {
			tokens += n
			rows++
		}
	}
	return tokens, rows
}

func countTrue(mask []bool) int {
	n := 0
	for _, m := range mask {
		if m {
			n++
		}
	}
	return n
}
