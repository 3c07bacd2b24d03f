package loss

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// sampled reads a column if a case has it, such as the log-probs at sampling.
func sampled[T Float](c *golden.Run, name string) []T {
	c.Helper()
	if _, ok := c.Inputs[name]; !ok {
		return nil
	}
	return column[T](c, name)
}

// sampledResponses reads the batch of a case of prime-rl, whose losses compare with the log-probs at sampling.
func sampledResponses[T Float](c *golden.Run) *Batch[T] {
	c.Helper()
	b := responses[T](c, "inference_log_prob")
	b.Sampled, b.OldLogProb = b.OldLogProb, b.LogProb
	return b
}

func skyrl[T Float](c *golden.Run) {
	kind := golden.Param[string](c, "policy_loss_type")
	b := responses[T](c, "old_log_prob")
	b.Sampled = sampled[T](c, "rollout_log_prob")
	var p Policy = PPO{Low: 1, High: 1e300} // of which nothing is clipped
	if kind == "dppo" {
		o := DefaultOptions()
		o.DeltaLow, o.DeltaHigh = c.Param("delta_low"), c.Param("delta_high")
		o.DPPOType = golden.Param[string](c, "dppo_type")
		p = built(c, "dppo_skyrl", o)
	} else if b.Sampled != nil {
		b.OldLogProb = b.Sampled
	}
	weights := skyrlWeights(c, b.Offsets, b.Mask)
	narrowed, scaled := make([]T, len(weights)), make([]float64, len(weights))
	for i, w := range weights {
		narrowed[i], scaled[i] = T(w), w*float64(b.Advantage[i])
	}
	golden.Numbers(c, "scaled_advantages", scaled)
	got := weighted(c, p, narrowed, b)
	compare2026(c, got, 1)
	if kind == "dppo" {
		c.Number("clip_ratio", got.Metrics.ClipFraction)
	}
}

// skyrlWeights returns the factors by which SkyRL scales advantages.
func skyrlWeights(c *golden.Run, offsets []int, mask []bool) []float64 {
	c.Helper()
	mode := golden.Param[string](c, "loss_reduction")
	rows := len(offsets) - 1
	tokens := func(from, to int) float64 { return max(1, float64(countTrue(mask[offsets[from]:offsets[to]]))) }
	var bounds [][2]int // of prompts or micro-batches
	scale := float64(rows)
	switch mode {
	case "token_mean":
		bounds, scale = [][2]int{{0, rows}}, 1
	case "prompt_mean":
		bounds = golden.Param[[][2]int](c, "prompt_boundaries")
		scale = float64(len(bounds))
	case "token_mean_legacy":
		size := int(c.Param("micro_batch_size"))
		scale = float64(rows / size)
		for from := 0; from+size <= rows; from += size {
			bounds = append(bounds, [2]int{from, from + size})
		}
	default:
		for row := range rows {
			bounds = append(bounds, [2]int{row, row + 1})
		}
	}
	out := make([]float64, len(mask))
	for _, of := range bounds {
		n := tokens(of[0], of[1])
		if mode == "seq_mean_token_sum_norm" {
			n = c.Param("max_seq_len")
		}
		for i := offsets[of[0]]; i < offsets[of[1]]; i++ {
			out[i] = 1 / (scale * n)
		}
	}
	if mode == "prompt_mean" {
		comparePrompts(c, bounds, offsets, mask, out)
	}
	return out
}

// comparePrompts compares the weights of prompt_mean with those of an aggregation.
func comparePrompts(t testing.TB, bounds [][2]int, offsets []int, mask []bool, want []float64) {
	t.Helper()
	a := Aggregation{Mode: PromptMean}
	for prompt, of := range bounds {
		for range of[1] - of[0] {
			a.Prompts = append(a.Prompts, prompt)
		}
	}
	got, err := a.Weights(nil, offsets, mask)
	require.NoError(t, err)
	for i, m := range mask {
		if m {
			near(t, "prompt-mean", got[i], want[i], 1e-15)
		}
	}
}

func areal[T Float](c *golden.Run) {
	p := M2PO{Threshold: c.Param("m2_threshold"), PPO: arealPPO(c)}
	b := responses[T](c, "prox_log_prob")
	b.Sampled = column[T](c, "old_log_prob")
	got := mustEval(c, p, Aggregation{}, b)
	compare2026(c, got, 1)
	c.Equal("remaining tokens", got.terms.kept, golden.Expected[padded](c, "mask").mask())
}

// arealPPO returns the clipped loss of a case of AReaL.
func arealPPO(c *golden.Run) PPO {
	c.Helper()
	clip := c.Param("eps_clip")
	return PPO{Low: clip, High: c.Optional("eps_clip_higher", clip), Dual: c.Optional("c_clip", 0)}
}

func trlMask[T Float](c *golden.Run) {
	p := OffPolicyMask{
		Policy:       PPO{Low: c.Param("epsilon"), High: c.Param("epsilon_high")},
		Delta:        c.Param("off_policy_mask_threshold"),
		FromSampling: true,
	}
	b := responses[T](c, "old_log_prob")
	b.Sampled = sampled[T](c, "sampling_log_prob")
	kind := golden.Param[string](c, "loss_type")
	a, rows := Aggregation{}, float64(b.Rows())
	tokens, full := count(b.Offsets, b.Mask)
	divisor := 1.0
	switch kind {
	case "grpo":
		a.Mode, divisor = SeqMeanTokenMean, rows/float64(full)
	case "dapo":
		divisor = max(c.Param("num_items_in_batch"), 1) / float64(tokens)
	}
	got := mustEval(c, p, a, b)
	compare2026(c, got, divisor)
	keep := golden.Expected[[]float64](c, "keep")
	for row, k := range keep {
		if lo, hi := b.Offsets[row], b.Offsets[row+1]; k == 0 {
			require.Equal(c, make([]float64, hi-lo), got.Grad[lo:hi], "row %d was kept", row)
		}
	}
}

func slimeMask[T Float](c *golden.Run) {
	clip := PPO{Low: c.Param("eps_clip"), High: c.Param("eps_clip_high"),
		Dual: c.Optional("eps_clip_c", 0)}
	b := responses[T](c, "old_log_prob")
	got := sumOf(c, OffPolicyMask{Policy: clip, Delta: c.Param("opsm_delta")}, b)
	golden.Numbers(c, "grad_log_prob", got.Grad)
	want := c.Flat(c.Expected, "token_loss")
	for i, m := range b.Mask {
		if !m {
			want[i] = 0 // the original computes it there, too
		}
	}
	golden.Vector(c, "token_loss", got.terms.Loss, want)
}

func supervised(c *golden.Run) {
	kind := golden.Param[string](c, "kind")
	weights, divisor := column[float64](c, "response_mask"), c.Optional("num_items_in_batch", 1)
	if kind == "weighted" {
		weights, divisor = column[float64](c, "ce_weights"), c.Param("ce_scale")
	}
	sum, grad := 0.0, make([]float64, len(weights))
	f := NLL
	if kind == "dft" {
		f = DFT
	}
	for i, x := range column[float64](c, "log_prob") {
		value, slope := f(x)
		if weights[i] != 0 {
			sum += weights[i] * value / max(divisor, 1)
			grad[i] = weights[i] * slope / max(divisor, 1)
		}
	}
	c.Number("loss", sum)
	golden.Numbers(c, "grad_log_prob", grad)
}

func verlDistill[T Float](c *golden.Run) {
	o := DefaultOptions()
	o.DistillKL, o.DistillPG = golden.Param[string](c, "loss_mode"), golden.Param[bool](c, "use_policy_gradient")
	o.DistillClamp = c.Optional("loss_max_clamp", 0)
	o.ClipLow, o.ClipHigh = c.Optional("clip_ratio_low", 0.2), c.Optional("clip_ratio_high", 0.2)
	o.DualClip = c.Optional("clip_ratio_c", 3)
	p := built(c, "opd", o)
	b := responses[T](c, "old_log_prob")
	b.Ref = column[T](c, "teacher_log_prob")
	b.Advantage = b.Ref
	got := verlEval(c, p, b)
	c.Number("abs_loss", got.Metrics.Teacher.Abs)
	c.Number("loss_min", got.Metrics.Teacher.Min)
	c.Number("loss_max", got.Metrics.Teacher.Max)
	if o.DistillPG {
		c.Number("pg_clipfrac", got.Metrics.ClipFraction)
		c.Number("pg_clipfrac_lower", got.Metrics.ClipFractionLower)
	}
}

func primeDistill[T Float](c *golden.Run) {
	p := built(c, "ref_kl", DefaultOptions())
	b := sampledResponses[T](c)
	b.Ref, b.Weight = column[T](c, "ref_log_prob"), column[T](c, "ref_kl_weights")
	b.Advantage = b.Ref
	for i, w := range b.Weight {
		b.Mask[i] = b.Mask[i] && w != 0 // weight 0 removes a token
	}
	compare2026(c, sumOf(c, p, b), c.Param("ref_kl_scale"))
	droppedShares(c, "ref_kl_is_masked", p, b)
	rowMetrics(c, "ref_kl_masked_mismatch_kl", p, b, func(m *Metrics) float64 { return m.Dropped.KL })
	rowMetrics(c, "ref_kl_unmasked_mismatch_kl", p, b, func(m *Metrics) float64 { return m.Dropped.KLOfOthers })
}

func kdrl[T Float](c *golden.Run) {
	rl, distill := c.Param("rl_loss_weight"), c.Param("distill_loss_weight")
	b := responses[T](c, "prox_log_prob")
	b.Ref = column[T](c, "teacher_log_prob")
	var p Policy = arealPPO(c)
	scale := rl
	if rl == 0 { // the teacher's log-ratio as an unclipped advantage, against the sampler
		b.OldLogProb = column[T](c, "old_log_prob")
		p, scale = Distill{KL: K1, Policy: PPO{Low: 1, High: 1e300}}, distill
	}
	r := mustEval(c, p, Aggregation{}, b)
	if rl != 0 {
		addKL(c, r, K1, distill/rl, Aggregation{}, b)
	}
	compare2026(c, r, 1/scale)
}
