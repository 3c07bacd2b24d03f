package sft

import (
	"fmt"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/train/config"
)

// collate lays out rows as a batch and reads their images. Weights are those of the rows.
func collate(members []*row) (*policy.Batch, error) {
	b := &policy.Batch{Rows: policy.Rows{Offsets: []int{0}}}
	for _, r := range members {
		b.Tokens, b.Weight = append(b.Tokens, r.tokens...), append(b.Weight, r.weight...)
		b.Offsets = append(b.Offsets, len(b.Tokens))
		var images []policy.Image
		if r.images != nil {
			var err error
			if images, err = r.images(); err != nil {
				return nil, fmt.Errorf("sft: %s: %w: %w", r.where, ErrExample, err)
			}
		}
		b.Images = append(b.Images, images)
	}
	return b, nil
}

// normalize divides the weights of a batch, so that the sum of weighted losses is the mean that
// sft.loss_agg_mode names. Sums are in float64, in the order of the tokens.
func normalize(b *policy.Batch, mode string) {
	if mode != string(loss.SeqMeanTokenMean) {
		divide(b.Weight, 1, mode == config.SFTTokenCount)
		return
	}
	for i := range b.Len() {
		divide(b.Weight[b.Offsets[i]:b.Offsets[i+1]], float64(b.Len()), false)
	}
}

// divide divides weights by n times their sum, or by n times the number of those that are not 0.
func divide(weight []float32, n float64, count bool) {
	sum := 0.0
	for _, w := range weight {
		if count && w != 0 {
			w = 1
		}
		sum += float64(w)
	}
	if sum == 0 {
		return
	}
	for i, w := range weight {
		weight[i] = float32(float64(w) / (sum * n))
	}
}
