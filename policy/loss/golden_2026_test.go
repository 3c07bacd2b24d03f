package loss

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// responses reads the batch of a case: with one advantage per token, one per row, or none.
func responses[T Float](t *testing.T, c golden.Case, old string) *Batch[T] {
	t.Helper()
	mask := input(t, c, "response_mask")
	b := &Batch[T]{
		Offsets: mask.offsets(), Mask: mask.mask(),
		LogProb: column[T](t, c, "log_prob"), OldLogProb: column[T](t, c, old),
	}
	if _, ok := c.Inputs["row_advantages"]; !ok {
		b.Advantage = sampled[T](t, c, "advantages")
		return b
	}
	var rows []float64
	golden.Need(t, c.Inputs, "row_advantages", &rows)
	for _, a := range rows {
		for range int(mask.width()) {
			b.Advantage = append(b.Advantage, T(a))
		}
	}
	return b
}

// compare2026 compares a sum of tokens' losses with the recorded loss and gradient. The sum is
// divided by divisor.
func compare2026(t *testing.T, tally *golden.Tally, c golden.Case, got *Result, divisor float64) {
	t.Helper()
	grad := make([]float64, len(got.Grad))
	for i, g := range got.Grad {
		grad[i] = g / divisor
	}
	scalar(t, tally, c, "loss", got.Loss/divisor)
	perToken(t, tally, c, "grad_log_prob", grad)
}

// weighted evaluates a loss with a weight for each token.
func weighted[T Float](t *testing.T, p Policy, weights []T, b *Batch[T]) *Result {
	t.Helper()
	var got Result
	require.NoError(t, EvalWeighted(&got, p, weights, b))
	return &got
}

// sumOf evaluates a loss with weight 1 for every token.
func sumOf[T Float](t *testing.T, p Policy, b *Batch[T]) *Result {
	t.Helper()
	return weighted(t, p, slices.Repeat([]T{1}, len(b.Mask)), b)
}

// verl2026 compares a loss in verl's aggregation.
func verl2026[T Float](t *testing.T, tally *golden.Tally, c golden.Case, p Policy) *Result {
	t.Helper()
	b := responses[T](t, c, "old_log_prob")
	b.Weight = sampled[T](t, c, "rollout_is_weights")
	got := verlEval(t, tally, c, p, b)
	scalar(t, tally, c, "ppo_kl", got.Metrics.KL)
	return got
}

// verlEval evaluates a loss in verl's aggregation, and compares loss and gradient.
func verlEval[T Float](t *testing.T, tally *golden.Tally, c golden.Case, p Policy, b *Batch[T]) *Result {
	t.Helper()
	a := verlAggregation(t, c, b.Offsets, b.Mask)
	weights, err := a.Weights(nil, b.Offsets, b.Mask)
	require.NoError(t, err)
	narrowed := make([]T, len(weights))
	for i, w := range weights {
		narrowed[i] = T(w)
	}
	got := weighted(t, p, narrowed, b)
	if a.Mode == SeqMeanTokenMean {
		c.Tolerance.Abs += 1e-8 // verl adds 1e-8 to a row's count
	}
	compare2026(t, tally, c, got, 1/a.scale)
	return got
}

// verlSum is an aggregation of verl.
type verlSum struct {
	Aggregation
	scale float64 // of the result
}

func verlAggregation(t *testing.T, c golden.Case, offsets []int, mask []bool) verlSum {
	t.Helper()
	var mode string
	golden.Need(t, c.Params, "loss_agg_mode", &mode)
	tokens, rows := count(offsets, mask)
	out := verlSum{Aggregation{Mode: Mode(mode)}, optional(t, c.Params, "dp_size", 1)}
	switch out.Mode {
	case TokenSum:
	case TokenMean:
		out.scale *= float64(tokens) / optional(t, c.Params, "batch_num_tokens", float64(tokens))
	case SeqMeanTokenSumNorm:
		// The horizon divides the mean over rows.
		width := float64(len(mask)) / float64(len(offsets)-1)
		out.Width = optional(t, c.Params, "loss_scale_factor", width)
		out.scale /= optional(t, c.Params, "global_batch_size", float64(rows))
	default:
		out.scale *= float64(rows) / optional(t, c.Params, "global_batch_size", float64(rows))
	}
	return out
}

func verlDPPO[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	var mode string
	golden.Need(t, c.Params, "loss_mode", &mode)
	o := DefaultOptions()
	o.ClipLow, o.ClipHigh = number(t, c.Params, "clip_ratio_low"), number(t, c.Params, "clip_ratio_high")
	o.DualClip = number(t, c.Params, "clip_ratio_c")
	p := built(t, mode, o)
	got := verl2026[T](t, tally, c, p)
	scalar(t, tally, c, "pg_clipfrac", got.Metrics.ClipFraction)
	scalar(t, tally, c, "pg_clipfrac_lower", got.Metrics.ClipFractionLower)
}

func verlDRO[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	verl2026[T](t, tally, c, DRO{number(t, c.Params, "dro_beta")})
}

func primeDPPO[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	var kind string
	golden.Need(t, c.Params, "type", &kind)
	p := PrimeDPPO{AdvTau: number(t, c.Params, "adv_tau"), KLTau: number(t, c.Params, "kl_tau"), Symmetric: kind == "ipo"}
	if p.Symmetric {
		p.High = number(t, c.Params, "ipo_threshold")
	} else {
		p.Low, p.High = number(t, c.Params, "dppo_mask_low"), number(t, c.Params, "dppo_mask_high")
	}
	b := sampledResponses[T](t, c)
	if _, ok := c.Inputs["rl_weights"]; ok {
		b.Weight = column[T](t, c, "rl_weights")
		for i, w := range b.Weight {
			b.Mask[i] = b.Mask[i] && w != 0 // weight 0 removes a token
		}
	}
	compare2026(t, tally, c, sumOf(t, p, b), number(t, c.Params, "rl_scale"))
	droppedShares(t, tally, c, "is_masked", p, b)
	rowMetrics(t, tally, c, "masked_mismatch_kl", p, b, func(m *Metrics) float64 { return m.Dropped.KL })
	rowMetrics(t, tally, c, "unmasked_mismatch_kl", p, b, func(m *Metrics) float64 { return m.Dropped.KLOfOthers })
	if !p.Symmetric {
		rowMetrics(t, tally, c, "is_masked_high", p, b, func(m *Metrics) float64 { return m.Dropped.High })
		rowMetrics(t, tally, c, "is_masked_low", p, b, func(m *Metrics) float64 { return m.Dropped.Low })
	}
}

// droppedShares compares the shares of rows' tokens that are dropped. With weights, rows without any have none.
func droppedShares[T Float](t *testing.T, tally *golden.Tally, c golden.Case, name string, p Policy, b *Batch[T]) {
	t.Helper()
	rowMetrics(t, tally, c, name, p, b, func(m *Metrics) float64 { return m.ClipFraction })
}

// rowMetrics compares a metric of each row.
func rowMetrics[T Float](
	t *testing.T, tally *golden.Tally, c golden.Case, name string, p Policy, b *Batch[T], of func(m *Metrics) float64,
) {
	t.Helper()
	var got, want []float64
	golden.Need(t, c.Expected, name, &want)
	for r := range b.Rows() {
		row := *b
		row.Mask = make([]bool, len(b.Mask))
		lo, hi := b.Offsets[r], b.Offsets[r+1]
		copy(row.Mask[lo:hi], b.Mask[lo:hi])
		if b.Weight == nil || countTrue(row.Mask) > 0 {
			got = append(got, of(&sumOf(t, p, &row).Metrics))
		}
	}
	golden.Floats(t, tally, name, got, want, c.Tolerance)
}

func trlVESPO[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	p := VESPO{
		KPos: number(t, c.Params, "vespo_k_pos"), LambdaPos: number(t, c.Params, "vespo_lambda_pos"),
		KNeg: number(t, c.Params, "vespo_k_neg"), LambdaNeg: number(t, c.Params, "vespo_lambda_neg"),
	}
	b := responses[T](t, c, "old_log_prob")
	if _, ok := c.Inputs["importance_sampling_ratio"]; ok {
		b.Weight = rowWeights[T](b, input(t, c, "importance_sampling_ratio"))
	}
	items := max(number(t, c.Params, "num_items_in_batch"), 1)
	steps := number(t, c.Params, "gradient_accumulation_steps") / number(t, c.Params, "steps_per_generation")
	compare2026(t, tally, c, sumOf(t, p, b), items*steps)
}

// rowWeights returns weights per token of those that TRL adds up over all columns of a row: the
// first counted token gets what tokens off the mask have, and all of a number per row.
func rowWeights[T Float](b *Batch[T], recorded padded) []T {
	out := make([]T, len(b.Mask))
	for r := range b.Rows() {
		first := -1
		for i := b.Offsets[r]; i < b.Offsets[r+1]; i++ {
			out[i] = 1
			if b.Mask[i] && first < 0 {
				first = i
			}
			if w := recorded[r]; len(w) > 1 {
				out[i] = T(w[i-b.Offsets[r]])
			}
		}
		if len(recorded[r]) == 1 && first >= 0 {
			out[first] = T(recorded[r][0])
		}
	}
	return out
}

func trlLUSPO[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	var level string
	golden.Need(t, c.Params, "importance_sampling_level", &level)
	a, coef := Aggregation{Mode: SeqMeanTokenSum}, number(t, c.Params, "beta")
	low, high, delta := number(t, c.Params, "epsilon"), number(t, c.Params, "epsilon_high"),
		optional(t, c.Params, "delta", 0)
	b := responses[T](t, c, "old_log_prob")
	rows := b.Rows()
	if level == "token" { // as if each token were a row
		b.Offsets = nil
		for i := range len(b.Mask) + 1 {
			b.Offsets = append(b.Offsets, i)
		}
	}
	p, corrected := LUSPO{Low: low, High: high, Delta: delta}, true
	golden.Decode(t, c.Params, "use_bias_correction_kl", &corrected)
	if b.Ref = sampled[T](t, c, "ref_log_prob"); coef != 0 && corrected {
		p.KL, p.KLCoef = K3Unclamped, coef
	}
	got := mustEval(t, p, a, b)
	if coef != 0 && !corrected {
		addKL(t, got, K3Unclamped, coef, a, b)
	}
	_, full := count(b.Offsets, b.Mask)
	compare2026(t, tally, c, got, float64(rows)/max(1, float64(full))*number(t, c.Params, "gradient_accumulation_steps"))
}
