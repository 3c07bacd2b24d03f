package loss

import (
	"encoding/json"
	"testing"

	"vagen/internal/golden"
)

type rawMessage = json.RawMessage

// cube is a recorded tensor of logits: row, position, token.
type cube [][][]float64

func flatCube[T Float](c cube) (values []T, vocab int) {
	for _, row := range c {
		for _, position := range row {
			vocab = len(position)
			for _, v := range position {
				values = append(values, T(v))
			}
		}
	}
	return values, vocab
}

func logits[T Float](t *testing.T, c golden.Case) *Logits[T] {
	t.Helper()
	var z cube
	golden.Need(t, c.Inputs, "logits", &z)
	values, vocab := flatCube[T](z)
	var labels []int32
	for _, v := range column[float64](t, c, "labels") {
		labels = append(labels, int32(v))
	}
	return &Logits[T]{Values: values, Vocab: vocab, Labels: labels, Temperature: number(t, c.Params, "temperature")}
}

func wantCube(t *testing.T, c golden.Case, name string) []float64 {
	t.Helper()
	var z cube
	golden.Need(t, c.Expected, name, &z)
	values, _ := flatCube[float64](z)
	return values
}

func entropyCase[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	l := logits[T](t, c)
	mask := input(t, c, "eos_mask")
	var s Softmax
	if err := l.Forward(&s); err != nil {
		t.Fatal(err)
	}
	var entropy, logProbs padded
	golden.Need(t, c.Expected, "entropy", &entropy)
	golden.Need(t, c.Expected, "log_probs", &logProbs)
	golden.Floats(t, tally, "entropy", s.Entropy, flat[float64](entropy), c.Tolerance)
	golden.Floats(t, tally, "log_probs", s.LogProb, flat[float64](logProbs), c.Tolerance)

	mean, gradEntropy, err := Aggregate(nil, Aggregation{}, mask.offsets(), mask.mask(), s.Entropy)
	if err != nil {
		t.Fatal(err)
	}
	tally.Float(t, "entropy_loss", mean, number(t, c.Expected, "entropy_loss"), c.Tolerance)
	grad, err := l.Backward(nil, &s, nil, gradEntropy)
	if err != nil {
		t.Fatal(err)
	}
	golden.Floats(t, tally, "grad_entropy_loss_logits", grad, wantCube(t, c, "grad_entropy_loss_logits"), c.Tolerance)

	if grad, err = l.Backward(grad, &s, flat[float64](mask), nil); err != nil {
		t.Fatal(err)
	}
	golden.Floats(t, tally, "grad_sum_masked_log_probs_logits", grad, wantCube(t, c, "grad_sum_masked_log_probs_logits"), c.Tolerance)
}

func actorCase[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	var useKL bool
	var kind string
	var accumulation int
	golden.Need(t, c.Params, "use_kl_loss", &useKL)
	golden.Need(t, c.Params, "kl_loss_type", &kind)
	golden.Need(t, c.Params, "gradient_accumulation", &accumulation)
	l := logits[T](t, c)
	var s Softmax
	if err := l.Forward(&s); err != nil {
		t.Fatal(err)
	}
	mask := input(t, c, "response_mask")
	b := &Batch[float64]{
		Offsets: mask.offsets(), Mask: mask.mask(), LogProb: s.LogProb,
		OldLogProb: column[float64](t, c, "old_log_prob"),
		Ref:        column[float64](t, c, "ref_log_prob"),
		Advantage:  column[float64](t, c, "advantages"),
	}
	a, clip := Aggregation{Norm: Norm{Accumulation: accumulation}}, number(t, c.Params, "clip_ratio")
	var got Result
	if err := Eval(&got, PPO{Low: clip, High: clip}, a, b); err != nil {
		t.Fatal(err)
	}
	parts, want := float64(accumulation), func(name string) float64 { return number(t, c.Expected, name) }
	if useKL {
		kl := addKL(t, &got, KL(kind), number(t, c.Params, "kl_loss_coef"), a, b)
		tally.Float(t, "kl_loss", kl*parts, want("kl_loss"), c.Tolerance)
	}
	entropy, gradEntropy, err := Aggregate(nil, a, b.Offsets, b.Mask, s.Entropy)
	if err != nil {
		t.Fatal(err)
	}
	coef := number(t, c.Params, "entropy_coeff")
	for i := range gradEntropy {
		gradEntropy[i] *= -coef
	}
	whole := got.Loss - coef*entropy
	for name, v := range map[string]float64{
		"pg_loss": got.Term, "entropy_loss": entropy * parts, "policy_loss": whole * parts, "loss": whole,
		"pg_clipfrac": got.Metrics.ClipFraction, "ppo_kl": got.Metrics.KL,
	} {
		tally.Float(t, name, v, want(name), c.Tolerance)
	}
	grad, err := l.Backward(nil, &s, got.Grad, gradEntropy)
	if err != nil {
		t.Fatal(err)
	}
	golden.Floats(t, tally, "grad_logits", grad, wantCube(t, c, "grad_logits"), c.Tolerance)
}

// addKL adds a KL term to a policy loss and returns it without its coefficient.
func addKL[T Float](t *testing.T, r *Result, kl KL, coef float64, a Aggregation, b *Batch[T]) float64 {
	t.Helper()
	value, slope := make([]float64, len(b.Mask)), make([]float64, len(b.Mask))
	for i, m := range b.Mask {
		var err error
		if !m {
			continue
		}
		if value[i], slope[i], err = kl.Of(float64(b.LogProb[i]), float64(b.Ref[i])); err != nil {
			t.Fatal(err)
		}
	}
	sum, grad, err := Aggregate(nil, a, b.Offsets, b.Mask, value)
	if err != nil {
		t.Fatal(err)
	}
	r.Loss += coef * sum
	for i, g := range grad {
		r.Grad[i] += coef * g * slope[i]
	}
	return sum
}

func turnCase[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	var name string
	golden.Need(t, c.Params, "loss", &name)
	clip := number(t, c.Params, "clip_ratio")
	o := DefaultOptions()
	o.ClipLow = optional(t, c.Params, "clip_ratio_low", clip)
	o.ClipHigh = optional(t, c.Params, "clip_ratio_high", clip)
	p, err := Builtin().New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	a := Aggregation{Norm: Norm{
		Rows:    int(optional(t, c.Params, "global_batch_size", 0)),
		Workers: int(optional(t, c.Params, "dp_size", 0)),
	}}
	b := responses[T](t, c, "old_log_prob")
	for _, id := range column[float64](t, c, "turn_id") {
		b.Turn = append(b.Turn, int32(id))
	}
	b.Weight = sampled[T](t, c, "rollout_is_weights")
	var got Result
	if err := Eval(&got, p, a, b); err != nil {
		t.Fatal(err)
	}
	for field, v := range map[string]float64{
		"loss": got.Loss, "pg_clipfrac": got.Metrics.ClipFraction, "ppo_kl": got.Metrics.KL,
		"turns_per_row": got.Metrics.TurnsPerRow, "turn_len_mean": got.Metrics.TurnLength,
		"turn_log_ratio_std": got.Metrics.TurnLogRatioStd,
	} {
		tally.Float(t, field, v, number(t, c.Expected, field), c.Tolerance)
	}
	var grad padded
	golden.Need(t, c.Expected, "grad_log_prob", &grad)
	golden.Floats(t, tally, "grad_log_prob", got.Grad, flat[float64](grad), c.Tolerance)
}
