package loss

import (
	"fmt"

	"vagen/internal/floats"
)

// Float is the storage type of per-token numbers: float32 in training, float64 for full
// precision. Arithmetic is float64 in both cases.
type Float interface{ float32 | float64 }

// Batch is one micro-batch of training rows, concatenated without padding.
//
// All columns have one entry per token, context included. Only tokens whose
// Mask is set are read; the others may hold anything.
type Batch[T Float] struct {
	Offsets []int  // rows+1 numbers; row i is tokens Offsets[i] up to Offsets[i+1]
	Mask    []bool // tokens that count, usually the loss mask

	LogProb    []T // log π(token) of the policy that is trained, nats
	OldLogProb []T // of the policy before this update, same temperature
	Advantage  []T // how much better than expected; already whitened

	Weight  []T     // optional: rollout correction, multiplies a token's loss, no gradient
	Ref     []T     // log-prob of the reference policy; only for KL terms
	Sampled []T     // log-prob when the token was sampled; only for losses that say so, see [Sampled]
	Turn    []int32 // turn of each counted token, not decreasing inside a row; only for turn losses

	// Chosen are log-probs of several tokens at each position, K per token, and Teacher those of a teacher; only for
	// losses that compare them, see [ChoiceOf].
	Chosen, Teacher []T

	// Seed determines the random choices of losses that have any (ClipCov). Equal seeds
	// and batches give equal losses.
	Seed uint64
}

// Rows returns the number of rows, empty ones included.
func (b *Batch[T]) Rows() int { return max(len(b.Offsets)-1, 0) }

// before returns the log-probs at sampling if a loss reads those and they are given, else those before the update.
func (b *Batch[T]) before(sampled bool) []T {
	if sampled && b.Sampled != nil {
		return b.Sampled
	}
	return b.OldLogProb
}

// check checks the columns that every policy loss needs.
func (b *Batch[T]) check() error {
	if b == nil {
		return setting("batch is nil, must be set")
	}
	if err := checkLayout(b.Offsets, b.Mask, len(b.LogProb)); err != nil {
		return err
	}
	for _, c := range [...]struct {
		name     string
		x        []T
		optional bool
	}{
		{"log_prob", b.LogProb, false},
		{"old_log_prob", b.OldLogProb, false},
		{"advantage", b.Advantage, false},
		{"weight", b.Weight, true},
		{"ref_log_prob", b.Ref, true},
		{"sampled_log_prob", b.Sampled, true},
	} {
		if err := checkColumn(c.name, c.x, b.Offsets, b.Mask, c.optional); err != nil {
			return err
		}
	}
	return b.checkChosen()
}

// checkChosen checks the numbers of compared tokens.
func (b *Batch[T]) checkChosen() error {
	n := len(b.Mask)
	if len(b.Chosen) != len(b.Teacher) || len(b.Chosen) > 0 && (n == 0 || len(b.Chosen)%n != 0) {
		return fmt.Errorf("loss: %d chosen log-probs and %d of the teacher for %d tokens: %w",
			len(b.Chosen), len(b.Teacher), n, ErrLength)
	}
	for _, c := range [...]struct {
		name string
		x    []T
	}{{"chosen", b.Chosen}, {"teacher", b.Teacher}} {
		for k, v := range c.x {
			if i := k / (len(c.x) / n); b.Mask[i] && !floats.Finite(float64(v)) {
				return notFinite(c.name, b.Offsets, i, float64(v))
			}
		}
	}
	return nil
}

// float64Copy holds the float64 copy of a float32 batch between calls.
type float64Copy struct {
	batch                       Batch[float64]
	logp, old, adv, weight, ref []float64
	sampled, chosen, teacher    []float64
}

// widen returns the batch in float64: itself if it is float64, else a copy in w's memory.
func widen[T Float](w *float64Copy, b *Batch[T]) *Batch[float64] {
	if same, ok := any(b).(*Batch[float64]); ok {
		return same
	}
	w.batch = Batch[float64]{
		Offsets:    b.Offsets,
		Mask:       b.Mask,
		LogProb:    convert(&w.logp, b.LogProb),
		OldLogProb: convert(&w.old, b.OldLogProb),
		Advantage:  convert(&w.adv, b.Advantage),
		Weight:     convert(&w.weight, b.Weight),
		Ref:        convert(&w.ref, b.Ref),
		Sampled:    convert(&w.sampled, b.Sampled),
		Chosen:     convert(&w.chosen, b.Chosen),
		Teacher:    convert(&w.teacher, b.Teacher),
		Turn:       b.Turn,
		Seed:       b.Seed,
	}
	return &w.batch
}

// convert copies src to buf, which is reused; nil stays nil.
func convert[T Float](buf *[]float64, src []T) []float64 {
	if src == nil {
		return nil
	}
	*buf = grow(*buf, len(src))
	for i, v := range src {
		(*buf)[i] = float64(v)
	}
	return *buf
}

// grow returns a slice of length n, in the memory of s if its capacity suffices. The
// contents are unspecified.
func grow[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}

// zeros is grow with every entry zero.
func zeros(s []float64, n int) []float64 {
	s = grow(s, n)
	clear(s)
	return s
}
