package diagnose

import (
	"math"
	"slices"
)

// ResponseLength writes, in counted tokens per row,
//
//	response_length/mean, /min, /max, /p95
//	response_length/clip_ratio  share of rows as long as MaxLength (when known)
//	response_length/truncated   share of rows ended by a limit (when known)
//	prompt_length/mean, /min, /max  the row's other tokens: context
//
// p95 is the smallest length that at least 95 % of the rows do not exceed.
func ResponseLength(dst map[string]float64, b *Batch) error {
	if err := b.check(); err != nil {
		return err
	}
	if len(b.Offsets) < 2 {
		return nil
	}
	rows := len(b.Offsets) - 1
	length, context := make([]float64, rows), make([]float64, rows)
	full := 0
	for r := range rows {
		for _, m := range b.Mask[b.Offsets[r]:b.Offsets[r+1]] {
			if m {
				length[r]++
			} else {
				context[r]++
			}
		}
		if length[r] == float64(b.MaxLength) {
			full++
		}
	}
	spread(dst, "response_length", length)
	spread(dst, "prompt_length", context)
	slices.Sort(length)
	dst["response_length/p95"] = length[int(math.Ceil(0.95*float64(rows)))-1]
	if b.MaxLength > 0 {
		dst["response_length/clip_ratio"] = float64(full) / float64(rows)
	}
	if b.Truncated != nil {
		cut := 0
		for _, t := range b.Truncated {
			if t {
				cut++
			}
		}
		dst["response_length/truncated"] = float64(cut) / float64(rows)
	}
	return nil
}
