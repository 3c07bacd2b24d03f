package tokenizer

import "fmt"

// ExpandImages appends ids to dst with the k-th image placeholder repeated
// counts[k] times, the number of merged patches of the k-th image. There must be as
// many placeholders as counts.
func (t *Tokenizer) ExpandImages(dst, ids []int32, counts []int) ([]int32, error) {
	pad := t.special.ImagePad
	k := 0
	for i, id := range ids {
		if id != pad || pad < 0 {
			dst = append(dst, id)
			continue
		}
		if k == len(counts) {
			return nil, fmt.Errorf("tokenizer: %w: token %d is one placeholder too many for %d images", ErrText, i, len(counts))
		}
		if counts[k] < 1 {
			return nil, fmt.Errorf("tokenizer: %w: image %d has %d tokens, want at least 1", ErrText, k, counts[k])
		}
		for range counts[k] {
			dst = append(dst, pad)
		}
		k++
	}
	if k != len(counts) {
		return nil, fmt.Errorf("tokenizer: %w: %d image placeholders for %d images", ErrText, k, len(counts))
	}
	return dst, nil
}
