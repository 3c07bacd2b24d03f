package loss

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

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

// cubes compares numbers of a vocabulary with the recorded ones.
func cubes(t *testing.T, tally *golden.Tally, c golden.Case, name string, got []float64) {
	t.Helper()
	var z cube
	golden.Need(t, c.Expected, name, &z)
	want, _ := flatCube[float64](z)
	golden.Floats(t, tally, name, got, want, c.Tolerance)
}

func entropyCase[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	l := logits[T](t, c)
	mask := input(t, c, "eos_mask")
	var s Softmax
	require.NoError(t, l.Forward(&s))
	perToken(t, tally, c, "entropy", s.Entropy)
	perToken(t, tally, c, "log_probs", s.LogProb)

	mean := aggregated(t, Aggregation{}, mask.offsets(), mask.mask(), s.Entropy,
		slices.Repeat([]float64{1}, len(s.Entropy)))
	scalar(t, tally, c, "entropy_loss", mean.Loss)
	grad, err := l.Backward(nil, &s, nil, mean.Grad)
	require.NoError(t, err)
	cubes(t, tally, c, "grad_entropy_loss_logits", grad)

	if grad, err = l.Backward(grad, &s, flat[float64](mask), nil); err != nil {
		t.Fatal(err)
	}
	cubes(t, tally, c, "grad_sum_masked_log_probs_logits", grad)
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
	require.NoError(t, l.Forward(&s))
	mask := input(t, c, "response_mask")
	b := &Batch[float64]{
		Offsets: mask.offsets(), Mask: mask.mask(), LogProb: s.LogProb,
		OldLogProb: column[float64](t, c, "old_log_prob"),
		Ref:        column[float64](t, c, "ref_log_prob"),
		Advantage:  column[float64](t, c, "advantages"),
	}
	a, clip := Aggregation{Norm: Norm{Accumulation: accumulation}}, number(t, c.Params, "clip_ratio")
	var got Result
	require.NoError(t, Eval(&got, PPO{Low: clip, High: clip}, a, b))
	parts := float64(accumulation)
	if useKL {
		kl := addKL(t, &got, KL(kind), number(t, c.Params, "kl_loss_coef"), a, b)
		scalar(t, tally, c, "kl_loss", kl*parts)
	}
	coef := number(t, c.Params, "entropy_coeff")
	entropy := aggregated(t, a, b.Offsets, b.Mask, s.Entropy, slices.Repeat([]float64{-coef}, len(s.Entropy)))
	whole := got.Loss - coef*entropy.Loss
	for name, v := range map[string]float64{
		"pg_loss": got.Term, "entropy_loss": entropy.Loss * parts, "policy_loss": whole * parts, "loss": whole,
		"pg_clipfrac": got.Metrics.ClipFraction, "ppo_kl": got.Metrics.KL,
	} {
		scalar(t, tally, c, name, v)
	}
	grad, err := l.Backward(nil, &s, got.Grad, entropy.Grad)
	require.NoError(t, err)
	cubes(t, tally, c, "grad_logits", grad)
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
	term := aggregated(t, a, b.Offsets, b.Mask, value, slope)
	r.Loss += coef * term.Loss
	for i, g := range term.Grad {
		r.Grad[i] += coef * g
	}
	return term.Loss
}

func turnCase[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	var name string
	golden.Need(t, c.Params, "loss", &name)
	clip := number(t, c.Params, "clip_ratio")
	o := DefaultOptions()
	o.ClipLow = optional(t, c.Params, "clip_ratio_low", clip)
	o.ClipHigh = optional(t, c.Params, "clip_ratio_high", clip)
	p, err := Builtin().New(name, o)
	require.NoError(t, err)
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
	require.NoError(t, Eval(&got, p, a, b))
	for field, v := range map[string]float64{
		"loss": got.Loss, "pg_clipfrac": got.Metrics.ClipFraction, "ppo_kl": got.Metrics.KL,
		"turns_per_row": got.Metrics.TurnsPerRow, "turn_len_mean": got.Metrics.TurnLength,
		"turn_log_ratio_std": got.Metrics.TurnLogRatioStd,
	} {
		scalar(t, tally, c, field, v)
	}
	perToken(t, tally, c, "grad_log_prob", got.Grad)
}
