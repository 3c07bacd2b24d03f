package loss

import (
	"fmt"
	"math"
	"slices"
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

// Aggregation aggregates per-token losses to the loss of a batch. The zero value is token-mean.
type Aggregation struct {
	Mode  Mode    // how tokens and rows of the batch are averaged
	Width float64 // divisor of seq-mean-token-sum-norm, e.g. the longest response allowed; > 0 there
	// Prompts has the prompt of each row, for prompt-mean; rows of one prompt may be anywhere in the batch.
	Prompts []int
}

// Weights writes one weight per token to dst (reused if its capacity suffices) and returns it, such that
//
//	loss = Σ weight·ℓ,   ∂loss/∂ℓ = weight
//
// Weights of tokens that do not count are zero, so a device graph needs one multiply and
// one sum for every mode. For a batch without a counted token all weights are zero, and
// so are loss and gradient.
func (a Aggregation) Weights(dst []float64, offsets []int, mask []bool) ([]float64, error) {
	if err := a.check(); err != nil {
		return dst, err
	}
	if err := checkLayout(offsets, mask, len(mask)); err != nil {
		return dst, err
	}
	prompts, err := a.prompts(offsets, mask)
	if err != nil {
		return dst, err
	}
	divisor := a.divisor(offsets, mask, len(prompts))
	dst = zeros(dst, len(mask))
	for r := range len(offsets) - 1 {
		w := 1 / divisor
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
	return dst, nil
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

// divisor is the divisor of the sum over tokens, rows or prompts.
func (a Aggregation) divisor(offsets []int, mask []bool, prompts int) float64 {
	tokens, rows := count(offsets, mask)
	switch a.Mode {
	case SeqMeanTokenSum, SeqMeanTokenMean:
		return float64(rows)
	case PromptMean:
		return float64(prompts)
	case TokenSum:
		return 1
	case SeqMeanTokenSumNorm:
		return a.Width
	}
	return float64(tokens)
}

func (a Aggregation) check() error {
	if a.Mode != "" && !slices.Contains(modeNames, string(a.Mode)) {
		return fmt.Errorf("loss: aggregation %q: %w%s (known: %s)", a.Mode, ErrUnknown,
			nearest.Hint(string(a.Mode), modeNames), strings.Join(modeNames, ", "))
	}
	if a.Mode == SeqMeanTokenSumNorm && (!(a.Width > 0) || math.IsInf(a.Width, 0)) {
		return setting("aggregation: %s needs Width > 0, got %v", a.Mode, a.Width)
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
