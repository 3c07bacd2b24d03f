package loss

import (
	"fmt"

	"vagen/internal/floats"
)

// Policy is a policy loss: the loss of one token and its derivative by the token's
// log-prob. [Eval] does the rest (checks, rollout weights, aggregation, metrics), so a
// custom loss consists of its formula only.
//
// Implementations must not keep t or b, and must be usable by several
// goroutines at once.
type Policy interface {
	// Terms sets t.Loss and t.Slope at the tokens with b.Mask set. Lengths and finiteness
	// of b are already checked, except for b.Turn.
	Terms(t *Terms, b *Batch[float64]) error
}

// Local reports whether the loss of a token depends on nothing but that token's own numbers: p has a method
// Local() bool that says so. Such a loss can be evaluated for any part of a batch, so a learner needs no second
// forward pass. It must not read Batch.Offsets or Batch.Seed. Other losses always see all tokens of a batch.
func Local(p Policy) bool {
	l, ok := p.(interface{ Local() bool })
	return ok && l.Local()
}

// Sampled reports whether p reads Batch.Sampled where it is given: p has a method Sampled() bool that says so.
func Sampled(p Policy) bool {
	s, ok := p.(interface{ Sampled() bool })
	return ok && s.Sampled()
}

// Terms is the output of a Policy. Slices have one entry per token; entries of tokens
// that do not count are not read.
type Terms struct {
	Loss     []float64 // ℓ; all zero at first
	Slope    []float64 // ∂ℓ/∂ log-prob of the same token; all zero at first
	Chosen   []float64 // ∂ℓ/∂ Batch.Chosen, K per token; empty at first, and for losses that do not compare tokens
	LogRatio []float64 // log-prob − old log-prob; a loss that clamps it, or has another, writes it back for the metrics

	Mode     Mode // fixed aggregation of the loss; "" uses the caller's
	Weighted bool // ℓ and its slope contain b.Weight already

	Clipped, ClippedLower int // tokens, for the metrics

	own   Metrics // those of single losses; sums, if means are over tokens
	order []int   // scratch
	kept  []bool

	taught Batch[float64] // as Distill gives it to its loss; owns only Advantage
	beside *Terms         // of the Distill of a Taught
	score  []float64
	pair   pair
}

// reset resets the terms and sets the log-ratios.
func (t *Terms) reset(b *Batch[float64]) error {
	n := len(b.LogProb)
	t.Loss, t.Slope, t.LogRatio = zeros(t.Loss, n), zeros(t.Slope, n), zeros(t.LogRatio, n)
	t.Chosen = t.Chosen[:0]
	t.Mode, t.Weighted, t.Clipped, t.ClippedLower = "", false, 0, 0
	t.own, t.pair.mass = Metrics{}, [2]float64{}
	for i, m := range b.Mask {
		if m {
			t.LogRatio[i] = b.LogProb[i] - b.OldLogProb[i]
		}
		if !floats.Finite(t.LogRatio[i]) {
			return notFinite("log_prob - old_log_prob", b.Offsets, i, t.LogRatio[i])
		}
	}
	return nil
}

// ready returns the error of a loss's settings, or one of what its Terms got: Eval has checked that, others may not.
func ready(t *Terms, b *Batch[float64], settings error) error {
	switch {
	case settings != nil:
		return settings
	case t == nil || b == nil:
		return setting("terms or batch is nil, must be set")
	case len(b.Chosen) != len(b.Teacher):
		return fmt.Errorf("loss: %d chosen log-probs and %d of the teacher: %w", len(b.Chosen), len(b.Teacher), ErrLength)
	}
	for i, x := range [...][]float64{
		b.OldLogProb, b.Advantage, t.Loss, t.Slope, t.LogRatio, b.Weight, b.Ref, b.Sampled,
	} {
		if optional := i > 4 && x == nil; !optional && len(x) != len(b.LogProb) {
			return fmt.Errorf("loss: a column of the batch or the terms has %d entries for %d tokens: %w", len(x),
				len(b.LogProb), ErrLength)
		}
	}
	return checkLayout(b.Offsets, b.Mask, len(b.LogProb))
}

// evaluate sets the terms of a loss, with Batch.Weight.
func (t *Terms) evaluate(p Policy, b *Batch[float64]) error {
	if err := t.reset(b); err != nil {
		return err
	}
	if err := t.add(p, b); err != nil {
		return fmt.Errorf("loss: %T: %w", p, err)
	}
	if !t.Weighted {
		t.weigh(b)
	}
	return nil
}

// add adds the terms of a loss.
func (t *Terms) add(p Policy, b *Batch[float64]) error {
	if err := p.Terms(t, b); err != nil {
		return err
	}
	if n := len(b.LogProb); len(t.Loss) != n || len(t.Slope) != n || len(t.LogRatio) != n ||
		len(t.Chosen) != 0 && len(t.Chosen) != len(b.Chosen) {
		return fmt.Errorf("it left %d losses, %d slopes, %d log-ratios and %d derivatives of compared tokens for "+
			"%d tokens, of which %d numbers are compared: %w",
			len(t.Loss), len(t.Slope), len(t.LogRatio), len(t.Chosen), n, len(b.Chosen), ErrLength)
	}
	return nil
}

// weigh multiplies the terms by Batch.Weight.
func (t *Terms) weigh(b *Batch[float64]) {
	for i, w := range b.Weight {
		if b.Mask[i] {
			t.times(i, w)
		}
	}
}

// times multiplies the terms of a token by a factor without gradient.
func (t *Terms) times(i int, w float64) {
	t.Loss[i] *= w
	t.Slope[i] *= w
	for k := range t.chosenOf(i) {
		t.chosenOf(i)[k] *= w
	}
}

// chosenOf are the derivatives by the numbers in Batch.Chosen of a token.
func (t *Terms) chosenOf(i int) []float64 {
	width := len(t.Chosen) / max(1, len(t.Loss))
	return t.Chosen[i*width:][:width]
}

// ModeOf returns the fixed aggregation of a loss, or "" if the caller chooses it. Code
// that weighs tokens before the loss is evaluated needs it.
func ModeOf(p Policy) (Mode, error) {
	if p == nil {
		return "", setting("policy loss is nil, must be set")
	}
	var t Terms
	err := t.evaluate(p, &Batch[float64]{Offsets: []int{0}})
	return t.Mode, err
}

// Result is a loss with its gradient. Its memory is reused: evaluating into the same
// Result again allocates only if the batch has grown.
type Result struct {
	// Loss is the aggregated loss of the batch.
	Loss float64
	// Grad is ∂Loss/∂log-prob, one entry per token, 0 where the mask is unset.
	// It is overwritten by the next evaluation.
	Grad []float64
	// GradChosen is ∂Loss/∂Batch.Chosen, K numbers per token; empty if the loss does not compare tokens.
	GradChosen []float64
	// Empty means that no token counted. Loss and Grad are then 0, because the formulas
	// would divide by zero; such a batch can be skipped.
	Empty bool

	Metrics Metrics // of the tokens that count

	weights []float64
	terms   Terms
	wide    float64Copy
}

// Eval evaluates a policy loss on a batch. The result is
//
//	Loss = Σ weight·w·ℓ,   Grad = weight·w · ∂ℓ/∂log-prob
//
// with weight from [Aggregation.Weights] and w from Batch.Weight. Sums run over tokens in order.
//
// Columns of unequal length give ErrLength, a NaN or infinity at a counted
// token ErrNotFinite, as does a loss that overflows.
func Eval[T Float](dst *Result, p Policy, a Aggregation, b *Batch[T]) error {
	return eval(dst, p, b, func() (err error) {
		if mode := dst.terms.Mode; mode != "" {
			a.Mode = mode
		}
		dst.weights, err = a.Weights(dst.weights, b.Offsets, b.Mask)
		return err
	})
}

// EvalWeighted is Eval with the weight of every token given instead of an Aggregation.
// A loss's fixed aggregation is then the caller's to apply, see [ModeOf]. Weights of
// tokens that do not count are not read.
func EvalWeighted[T Float](dst *Result, p Policy, weights []T, b *Batch[T]) error {
	return eval(dst, p, b, func() error {
		convert(&dst.weights, weights)
		return checkColumn("weights", weights, b.Offsets, b.Mask, false)
	})
}

// eval evaluates a loss with the weights that weigh sets once its terms are known.
func eval[T Float](dst *Result, p Policy, b *Batch[T], weigh func() error) error {
	if dst == nil || p == nil {
		return setting("result or policy loss is nil, must be set")
	}
	if err := b.check(); err != nil {
		return err
	}
	wide := widen(&dst.wide, b)
	err := dst.terms.evaluate(p, wide)
	if err == nil {
		err = weigh()
	}
	if err == nil {
		err = dst.sum(b.Offsets, b.Mask)
	}
	if err == nil {
		dst.Metrics.measure(&dst.terms, wide)
	}
	return err
}

// sum sums the terms with the weights.
func (r *Result) sum(offsets []int, mask []bool) error {
	w, t := r.weights, &r.terms
	r.Grad, r.GradChosen = zeros(r.Grad, len(mask)), zeros(r.GradChosen, len(t.Chosen))
	r.Loss, r.Empty = 0, true
	for i, m := range mask {
		if !m {
			continue
		}
		if !floats.Finite(t.Loss[i]) {
			return notFinite("loss of a token", offsets, i, t.Loss[i])
		}
		r.Empty = false
		r.Loss += w[i] * t.Loss[i]
		r.Grad[i] = w[i]*t.Slope[i] + 0 // turns −0 into 0
		if !floats.Finite(r.Grad[i]) {
			return notFinite("gradient of a token", offsets, i, r.Grad[i])
		}
		at := i * (len(r.GradChosen) / len(mask))
		for k, g := range t.chosenOf(i) {
			if r.GradChosen[at+k] = w[i]*g + 0; !floats.Finite(r.GradChosen[at+k]) {
				return notFinite("gradient of a compared token", offsets, i, r.GradChosen[at+k])
			}
		}
	}
	if !floats.Finite(r.Loss) {
		return fmt.Errorf("loss: sum over the batch: %v: %w", r.Loss, ErrNotFinite)
	}
	return nil
}
