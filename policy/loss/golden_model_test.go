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

func TestEntropyAndLogProbAgreeWithTheForkOfVerl(t *testing.T) {
	eachCase(t, "algorithms/entropy_logprob.json", entropyCase[float64], entropyCase[float32])
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

func TestActorLossAgreesWithTheForkOfVerl(t *testing.T) {
	eachCase(t, "algorithms/actor_loss.json", actorCase[float64], actorCase[float32])
}

func actorCase[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	var useKL bool
	var kind string
	var accumulation int
	golden.Need(t, c.Params, "use_kl_loss", &useKL)
	golden.Need(t, c.Params, "kl_loss_type", &kind)
	golden.Need(t, c.Params, "gradient_accumulation", &accumulation)
	clip := number(t, c.Params, "clip_ratio")
	actor := Actor{
		Policy:      PPO{Low: clip, High: clip},
		Aggregation: Aggregation{Norm: Norm{Accumulation: accumulation}},
		EntropyCoef: number(t, c.Params, "entropy_coeff"),
		KLCoef:      number(t, c.Params, "kl_loss_coef"),
	}
	if useKL {
		actor.KL = KL(kind)
	}

	l := logits[T](t, c)
	var s Softmax
	if err := l.Forward(&s); err != nil {
		t.Fatal(err)
	}
	mask := input(t, c, "response_mask")
	var got ActorResult
	err := EvalActor(&got, actor, &Batch[float64]{
		Offsets: mask.offsets(), Mask: mask.mask(),
		LogProb: s.LogProb, Entropy: s.Entropy,
		OldLogProb: column[float64](t, c, "old_log_prob"),
		Ref:        column[float64](t, c, "ref_log_prob"),
		Advantage:  column[float64](t, c, "advantages"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]float64{
		"pg_loss": got.Policy, "entropy_loss": got.Entropy, "kl_loss": got.KL,
		"policy_loss": got.Term, "loss": got.Loss,
		"pg_clipfrac": got.Metrics.ClipFraction, "ppo_kl": got.Metrics.KL,
	} {
		if name == "kl_loss" && !useKL {
			continue
		}
		tally.Float(t, name, v, number(t, c.Expected, name), c.Tolerance)
	}
	grad, err := l.Backward(nil, &s, got.GradLogProb, got.GradEntropy)
	if err != nil {
		t.Fatal(err)
	}
	golden.Floats(t, tally, "grad_logits", grad, wantCube(t, c, "grad_logits"), c.Tolerance)
}

func TestTurnLossesAgreeWithVAGEN(t *testing.T) {
	eachCase(t, "algorithms_next/turn_losses.json", turnCase[float64], turnCase[float32])
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
	mask := input(t, c, "response_mask")
	b := &Batch[T]{
		Offsets: mask.offsets(), Mask: mask.mask(),
		LogProb:    column[T](t, c, "log_prob"),
		OldLogProb: column[T](t, c, "old_log_prob"),
		Advantage:  column[T](t, c, "advantages"),
	}
	for _, id := range column[float64](t, c, "turn_id") {
		b.Turn = append(b.Turn, int32(id))
	}
	if _, ok := c.Inputs["rollout_is_weights"]; ok {
		b.Weight = column[T](t, c, "rollout_is_weights")
	}
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
