package plan

import (
	"cmp"

	"vagen/policy/vlm/internal/generate"
)

// cacheBytes is the size of the caches of conversations with what else is in memory at the same time: copies of caches,
// or the activations for reading a prompt, first those of the vision tower, and the gaps that these leave.
func (s *Setup) cacheBytes(w Workload) int64 {
	rows, images := generate.RowBucket(min(w.Rows, s.MaxRows)), w.ReadImages
	if w.ReadTokens == 0 || w.ReadTokens > w.Tokens {
		w.ReadTokens, w.OpenTokens, images = 0, w.Tokens, w.Images
	}
	open := cmp.Or(w.OpenTokens, w.ReadTokens)
	inside := insideForward(s.Net, s.Net.Layers, rows*open, rows, open)
	if read := w.ReadTokens; read > 0 { // each attends to all slots of the cache
		groups := rows * ((s.slots(w) + 2*read - 1) / read)
		inside = max(inside, insideForward(s.Net, s.Net.Layers, rows*read, groups, read))
	}
	l := microBatchPlan{images: min(rows, w.Rows) * images, patches: w.Patches}
	reading := max(l.bytesOf(s.Net, inside)+4*int64(rows)*int64(s.Net.Cfg.Text.Vocab), l.visionBytes(s.Net))
	if w.ReadTokens > 0 && byKernels(s.Net) { // which read a layer's cache and the new tokens in one piece
		reading += s.batchCache(w, rows) / int64(len(s.Net.Layers))
	}
	if !s.Net.Dev.Accelerator() && !s.Net.Dev.PureGo() {
		reading += min(reading/3, maxGaps)
	}
	kept, all := s.keptCaches(w), s.AllCaches(w)
	if !generate.AppendsInPlace(s.Net) {
		return all + reading
	}
	if w.Rows > s.MaxRows { // while a batch reads, there are copies of the rows that decode
		reading += s.batchCache(w, rows)
	}
	return max(all, kept+reading)
}

// AllCaches is the size of the caches of conversations: those of all batches, those of
// the largest batch again while its cache grows, and the copies of rows that continue in
// another batch. These are at most half a batch if there is one batch, a whole batch if
// there are several.
func (s *Setup) AllCaches(w Workload) int64 {
	of := func(rows int) int64 { return s.batchCache(w, rows) }
	sum := s.keptCaches(w)
	most := generate.RowBucket(min(w.Rows, s.MaxRows))
	if s.Continuous || w.Rows > s.MaxRows { // in a continuous batch, another one that replaces it
		return sum + 2*of(most)
	}
	return sum + of(most) + of(most/2)
}

// keptCaches is the size of the caches of the conversations' batches.
func (s *Setup) keptCaches(w Workload) (sum int64) {
	for left := w.Rows; left > 0; left -= s.MaxRows {
		sum += s.batchCache(w, generate.RowBucket(min(left, s.MaxRows)))
	}
	return sum
}

// batchCache is the size of the cache of a batch of rows.
func (s *Setup) batchCache(w Workload, rows int) int64 {
	return int64(rows) * s.Net.Cfg.CacheBytes(s.slots(w), s.Net.Compute)
}

// slots is the length of the cache of conversations, with the recent segment.
func (s *Setup) slots(w Workload) int { return generate.CacheLength(max(w.Tokens, s.CacheTokens)) + 32 }
