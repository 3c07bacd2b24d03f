package loss

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// responses reads the batch of a case: with one advantage per token, one per row, or none.
func responses[T Float](c *golden.Run, old string) *Batch[T] {
	c.Helper()
	mask := input(c, "response_mask")
	b := &Batch[T]{
		Offsets: mask.offsets(), Mask: mask.mask(),
		LogProb: column[T](c, "log_prob"), OldLogProb: column[T](c, old),
	}
	if _, ok := c.Inputs["row_advantages"]; !ok {
		b.Advantage = sampled[T](c, "advantages")
		return b
	}
	rows := golden.Input[[]float64](c, "row_advantages")
	for _, a := range rows {
		for range int(mask.width()) {
			b.Advantage = append(b.Advantage, T(a))
		}
	}
	return b
}

// compare2026 compares a sum of tokens' losses with the recorded loss and gradient. The sum is
// divided by divisor.
func compare2026(c *golden.Run, got *Result, divisor float64) {
	c.Helper()
	grad := make([]float64, len(got.Grad))
	for i, g := range got.Grad {
		grad[i] = g / divisor
	}
	c.Number("loss", got.Loss/divisor)
	golden.Numbers(c, "grad_log_prob", grad)
}

// weighted evaluates a loss with a weight for each token.
func weighted[T Float](t testing.TB, p Policy, weights []T, b *Batch[T]) *Result {
	t.Helper()
	var got Result
	require.NoError(t, EvalWeighted(&got, p, weights, b))
	return &got
}

// sumOf evaluates a loss with weight 1 for every token.
func sumOf[T Float](t testing.TB, p Policy, b *Batch[T]) *Result {
	t.Helper()
	return weighted(t, p, slices.Repeat([]T{1}, len(b.Mask)), b)
}

// verl2026 compares a loss in verl's aggregation.
func verl2026[T Float](c *golden.Run, p Policy) *Result {
	c.Helper()
	b := responses[T](c, "old_log_prob")
	b.Weight = sampled[T](c, "rollout_is_weights")
	got := verlEval(c, p, b)
	c.Number("ppo_kl", got.Metrics.KL)
	return got
}

// verlEval evaluates a loss in verl's aggregation, and compares loss and gradient.
func verlEval[T Float](c *golden.Run, p Policy, b *Batch[T]) *Result {
	c.Helper()
	a := verlAggregation(c, b.Offsets, b.Mask)
	weights, err := a.Weights(nil, b.Offsets, b.Mask)
	require.NoError(c, err)
	narrowed := make([]T, len(weights))
	for i, w := range weights {
		narrowed[i] = T(w)
	}
	got := weighted(c, p, narrowed, b)
	if a.Mode == SeqMeanTokenMean {
		c.Tolerance.Abs += 1e-8 // verl adds 1e-8 to a row's count
	}
	compare2026(c, got, 1/a.scale)
	return got
}

// verlSum is an aggregation of verl.
type verlSum struct {
	Aggregation
	scale float64 // of the result
}

func verlAggregation(c *golden.Run, offsets []int, mask []bool) verlSum {
	c.Helper()
	mode := golden.Param[string](c, "loss_agg_mode")
	tokens, rows := count(offsets, mask)
	out := verlSum{Aggregation{Mode: Mode(mode)}, c.Optional("dp_size", 1)}
	switch out.Mode {
	case TokenSum:
	case TokenMean:
		out.scale *= float64(tokens) / c.Optional("batch_num_tokens", float64(tokens))
	case SeqMeanTokenSumNorm:
		// The horizon divides the mean over rows.
		width := float64(len(mask)) / float64(len(offsets)-1)
		out.Width = c.Optional("loss_scale_factor", width)
		out.scale /= c.Optional("global_batch_size", float64(rows))
	default:
		out.scale *= float64(rows) / c.Optional("global_batch_size", float64(rows))
	}
	return out
}

func verlDPPO[T Float](c *golden.Run) {
	mode := golden.Param[string](c, "loss_mode")
	o := DefaultOptions()
	o.ClipLow, o.ClipHigh = c.Param("clip_ratio_low"), c.Param("clip_ratio_high")
	o.DualClip = c.Param("clip_ratio_c")
	p := built(c, mode, o)
	got := verl2026[T](c, p)
	c.Number("pg_clipfrac", got.Metrics.ClipFraction)
	c.Number("pg_clipfrac_lower", got.Metrics.ClipFractionLower)
}

func verlDRO[T Float](c *golden.Run) {
	verl2026[T](c, DRO{c.Param("dro_beta")})
}

func primeDPPO[T Float](c *golden.Run) {
	kind := golden.Param[string](c, "type")
	p := PrimeDPPO{AdvTau: c.Param("adv_tau"), KLTau: c.Param("kl_tau"), Symmetric: kind == "ipo"}
	if p.Symmetric {
		p.High = c.Param("ipo_threshold")
	} else {
		p.Low, p.High = c.Param("dppo_mask_low"), c.Param("dppo_mask_high")
	}
	b := sampledResponses[T](c)
	if _, ok := c.Inputs["rl_weights"]; ok {
		b.Weight = column[T](c, "rl_weights")
		for i, w := range b.Weight {
			b.Mask[i] = b.Mask[i] && w != 0 // weight 0 removes a token
		}
	}
	compare2026(c, sumOf(c, p, b), c.Param("rl_scale"))
	droppedShares(c, "is_masked", p, b)
	rowMetrics(c, "masked_mismatch_kl", p, b, func(m *Metrics) float64 { return m.Dropped.KL })
	rowMetrics(c, "unmasked_mismatch_kl", p, b, func(m *Metrics) float64 { return m.Dropped.KLOfOthers })
	if !p.Symmetric {
		rowMetrics(c, "is_masked_high", p, b, func(m *Metrics) float64 { return m.Dropped.High })
		rowMetrics(c, "is_masked_low", p, b, func(m *Metrics) float64 { return m.Dropped.Low })
	}
}

// droppedShares compares the shares of rows' tokens that are dropped. With weights, rows without any have none.
func droppedShares[T Float](c *golden.Run, name string, p Policy, b *Batch[T]) {
	c.Helper()
	rowMetrics(c, name, p, b, func(m *Metrics) float64 { return m.ClipFraction })
}

// rowMetrics compares a metric of each row.
func rowMetrics[T Float](
	c *golden.Run, name string, p Policy, b *Batch[T], of func(m *Metrics) float64,
) {
	c.Helper()
	var got []float64
	for r := range b.Rows() {
		row := *b
		row.Mask = make([]bool, len(b.Mask))
		lo, hi := b.Offsets[r], b.Offsets[r+1]
		copy(row.Mask[lo:hi], b.Mask[lo:hi])
		if b.Weight == nil || countTrue(row.Mask) > 0 {
			got = append(got, of(&sumOf(c, p, &row).Metrics))
		}
	}
	golden.Vector(c, name, got, golden.Expected[[]float64](c, name))
}

func trlVESPO[T Float](c *golden.Run) {
	p := VESPO{
		KPos: c.Param("vespo_k_pos"), LambdaPos: c.Param("vespo_lambda_pos"),
		KNeg: c.Param("vespo_k_neg"), LambdaNeg: c.Param("vespo_lambda_neg"),
	}
	b := responses[T](c, "old_log_prob")
	if _, ok := c.Inputs["importance_sampling_ratio"]; ok {
		b.Weight = rowWeights[T](b, input(c, "importance_sampling_ratio"))
	}
	items := max(c.Param("num_items_in_batch"), 1)
	steps := c.Param("gradient_accumulation_steps") / c.Param("steps_per_generation")
	compare2026(c, sumOf(c, p, b), items*steps)
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

func trlLUSPO[T Float](c *golden.Run) {
	level := golden.Param[string](c, "importance_sampling_level")
	a, coef := Aggregation{Mode: SeqMeanTokenSum}, c.Param("beta")
	low, high, delta := c.Param("epsilon"), c.Param("epsilon_high"),
		c.Optional("delta", 0)
	b := responses[T](c, "old_log_prob")
	rows := b.Rows()
	if level == "token" { // as if each token were a row
		b.Offsets = nil
		for i := range len(b.Mask) + 1 {
			b.Offsets = append(b.Offsets, i)
		}
	}
	p, corrected := LUSPO{Low: low, High: high, Delta: delta}, golden.ParamOr(c, "use_bias_correction_kl", true)
	if b.Ref = sampled[T](c, "ref_log_prob"); coef != 0 && corrected {
		p.KL, p.KLCoef = K3Unclamped, coef
	}
	got := mustEval(c, p, a, b)
	if coef != 0 && !corrected {
		addKL(c, got, K3Unclamped, coef, a, b)
	}
	_, full := count(b.Offsets, b.Mask)
	compare2026(c, got, float64(rows)/max(1, float64(full))*c.Param("gradient_accumulation_steps"))
}
