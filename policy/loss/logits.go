package loss

import (
	"fmt"
	"math"

	"vagen/internal/floats"
)

// Logits are the unnormalised scores of a model for every token of its vocabulary, one
// row of Vocab numbers per position.
type Logits[T Float] struct {
	Values []T     // positions × Vocab, row-major, before the temperature
	Vocab  int     // ≥ 1
	Labels []int32 // the token that was written at each position
	// Temperature divides the logits first; it must be that with which the tokens
	// were sampled at, > 0.
	Temperature float64
	// Mask selects the positions to compute; the others get zeros and are not read. nil
	// computes all.
	Mask []bool
}

// Softmax holds the results of logits z (after the temperature):
//
//	log-prob = z_label − logsumexp(z)
//	entropy  = logsumexp(z) − Σ softmax(z)·z,   in nats
type Softmax struct {
	LogProb, Entropy []float64 // one entry per position

	logSum []float64 // logsumexp
}

// Forward computes log-prob and entropy of every position into dst, whose
// memory is reused.
func (l *Logits[T]) Forward(dst *Softmax) error {
	if err := l.check(); err != nil {
		return err
	}
	if dst == nil {
		return setting("result of the softmax is nil, must be set")
	}
	n := len(l.Labels)
	dst.LogProb, dst.Entropy = zeros(dst.LogProb, n), zeros(dst.Entropy, n)
	dst.logSum = zeros(dst.logSum, n)
	for i := range n {
		if l.Mask != nil && !l.Mask[i] {
			continue
		}
		top, logSum, entropy, err := l.row(i)
		if err != nil {
			return err
		}
		dst.logSum[i], dst.Entropy[i] = top+logSum, entropy
		dst.LogProb[i] = l.at(i, int(l.Labels[i])) - top - logSum
	}
	return nil
}

// row returns the largest logit, ln Σ exp(z − largest) and the entropy of one position.
// Subtracting the largest logit first avoids overflow and loss of precision in the
// entropy.
func (l *Logits[T]) row(i int) (top, logSum, entropy float64, err error) {
	top = math.Inf(-1)
	for j := range l.Vocab {
		z := l.at(i, j)
		if !floats.Finite(z) {
			return 0, 0, 0, fmt.Errorf("loss: logits: position %d, token %d: %v: %w", i, j, z, ErrNotFinite)
		}
		top = max(top, z)
	}
	var sum, weighted float64
	for j := range l.Vocab {
		d := l.at(i, j) - top
		e := math.Exp(d)
		sum += e
		weighted += e * d
	}
	logSum = math.Log(sum)
	return top, logSum, logSum - weighted/sum, nil
}

// at is one logit after the temperature.
func (l *Logits[T]) at(i, j int) float64 { return float64(l.Values[i*l.Vocab+j]) / l.Temperature }

// Backward writes the gradient by the logits before division by the temperature to dst
// (reused if its capacity suffices) and returns it, given s from Forward and the
// gradients by log-prob and by entropy; either may be nil. With p = softmax(z),
// temperature T and entropy H,
//
//	∂/∂logit_j = [ g_logp·(1{j = label} − p_j) − g_H·p_j·(ln p_j + H) ] / T
func (l *Logits[T]) Backward(dst []float64, s *Softmax, gradLogProb, gradEntropy []float64) ([]float64, error) {
	if err := l.check(); err != nil {
		return dst, err
	}
	if s == nil {
		return dst, setting("softmax is nil, must be that of Forward")
	}
	n := len(l.Labels)
	if len(s.logSum) != n {
		return dst, fmt.Errorf("loss: logits: softmax of %d positions for %d labels: %w", len(s.logSum), n, ErrLength)
	}
	for _, g := range [...][]float64{gradLogProb, gradEntropy} {
		if g != nil && len(g) != n {
			return dst, fmt.Errorf("loss: logits: gradient of %d positions for %d labels: %w", len(g), n, ErrLength)
		}
	}
	dst = zeros(dst, len(l.Values))
	for i := range n {
		if l.Mask != nil && !l.Mask[i] {
			continue
		}
		var gl, ge float64
		if gradLogProb != nil {
			gl = gradLogProb[i]
		}
		if gradEntropy != nil {
			ge = gradEntropy[i]
		}
		out := dst[i*l.Vocab : (i+1)*l.Vocab]
		for j := range out {
			logp := l.at(i, j) - s.logSum[i]
			out[j] = -math.Exp(logp) * (gl + ge*(logp+s.Entropy[i])) / l.Temperature
		}
		out[l.Labels[i]] += gl / l.Temperature
	}
	return dst, nil
}

func (l *Logits[T]) check() error {
	if !(l.Temperature > 0) || math.IsInf(l.Temperature, 0) {
		return setting("logits: Temperature = %v, want more than 0", l.Temperature)
	}
	if l.Vocab < 1 {
		return setting("logits: Vocab = %d, want 1 or more", l.Vocab)
	}
	n := len(l.Labels)
	if len(l.Values)%l.Vocab != 0 || len(l.Values)/l.Vocab != n {
		return fmt.Errorf("loss: logits: %d numbers for %d positions of %d tokens: %w", len(l.Values), n, l.Vocab, ErrLength)
	}
	if l.Mask != nil && len(l.Mask) != n {
		return fmt.Errorf("loss: logits: mask has %d entries for %d positions: %w", len(l.Mask), n, ErrLength)
	}
	for i, id := range l.Labels {
		if (l.Mask == nil || l.Mask[i]) && (id < 0 || int(id) >= l.Vocab) {
			return fmt.Errorf("loss: logits: position %d: token %d, want 0 to %d: %w", i, id, l.Vocab-1, ErrLabel)
		}
	}
	return nil
}
