package loss

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// sampled reads a column if a case has it, such as the log-probs at sampling.
func sampled[T Float](t *testing.T, c golden.Case, name string) []T {
	t.Helper()
	if _, ok := c.Inputs[name]; !ok {
		return nil
	}
	return column[T](t, c, name)
}

// sampledResponses reads the batch of a case of prime-rl, whose losses compare with the log-probs at sampling.
func sampledResponses[T Float](t *testing.T, c golden.Case) *Batch[T] {
	t.Helper()
	b := responses[T](t, c, "inference_log_prob")
	b.Sampled, b.OldLogProb = b.OldLogProb, b.LogProb
	return b
}

func skyrl[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	var kind string
	golden.Need(t, c.Params, "policy_loss_type", &kind)
	b := responses[T](t, c, "old_log_prob")
	b.Sampled = sampled[T](t, c, "rollout_log_prob")
	var p Policy = PPO{Low: 1, High: 1e300} // of which nothing is clipped
	if kind == "dppo" {
		o := DefaultOptions()
		o.DeltaLow, o.DeltaHigh = number(t, c.Params, "delta_low"), number(t, c.Params, "delta_high")
		golden.Need(t, c.Params, "dppo_type", &o.DPPOType)
		p = built(t, "dppo_skyrl", o)
	} else if b.Sampled != nil {
		b.OldLogProb = b.Sampled
	}
	weights := skyrlWeights(t, c, b.Offsets, b.Mask)
	narrowed, scaled := make([]T, len(weights)), make([]float64, len(weights))
	for i, w := range weights {
		narrowed[i], scaled[i] = T(w), w*float64(b.Advantage[i])
	}
	perToken(t, tally, c, "scaled_advantages", scaled)
	got := weighted(t, p, narrowed, b)
	compare2026(t, tally, c, got, 1)
	if kind == "dppo" {
		scalar(t, tally, c, "clip_ratio", got.Metrics.ClipFraction)
	}
}

// skyrlWeights returns the factors by which SkyRL scales advantages.
func skyrlWeights(t *testing.T, c golden.Case, offsets []int, mask []bool) []float64 {
	t.Helper()
	var mode string
	golden.Need(t, c.Params, "loss_reduction", &mode)
	rows := len(offsets) - 1
	tokens := func(from, to int) float64 { return max(1, float64(countTrue(mask[offsets[from]:offsets[to]]))) }
	var bounds [][2]int // of prompts or micro-batches
	scale := float64(rows)
	switch mode {
	case "token_mean":
		bounds, scale = [][2]int{{0, rows}}, 1
	case "prompt_mean":
		golden.Need(t, c.Params, "prompt_boundaries", &bounds)
		scale = float64(len(bounds))
	case "token_mean_legacy":
		size := int(number(t, c.Params, "micro_batch_size"))
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
			n = number(t, c.Params, "max_seq_len")
		}
		for i := offsets[of[0]]; i < offsets[of[1]]; i++ {
			out[i] = 1 / (scale * n)
		}
	}
	if mode == "prompt_mean" {
		comparePrompts(t, bounds, offsets, mask, out)
	}
	return out
}

// comparePrompts compares the weights of prompt_mean with those of an aggregation.
func comparePrompts(t *testing.T, bounds [][2]int, offsets []int, mask []bool, want []float64) {
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

func areal[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	p := M2PO{Threshold: number(t, c.Params, "m2_threshold"), PPO: arealPPO(t, c)}
	b := responses[T](t, c, "prox_log_prob")
	b.Sampled = column[T](t, c, "old_log_prob")
	got := mustEval(t, p, Aggregation{}, b)
	compare2026(t, tally, c, got, 1)
	want := expected(t, c, "mask")
	require.Equal(t, want.mask(), got.terms.kept, "%s: remaining tokens", c.Name)
}

// arealPPO returns the clipped loss of a case of AReaL.
func arealPPO(t *testing.T, c golden.Case) PPO {
	t.Helper()
	clip := number(t, c.Params, "eps_clip")
	return PPO{Low: clip, High: optional(t, c.Params, "eps_clip_higher", clip), Dual: optional(t, c.Params, "c_clip", 0)}
}

func trlMask[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	p := OffPolicyMask{
		Policy:       PPO{Low: number(t, c.Params, "epsilon"), High: number(t, c.Params, "epsilon_high")},
		Delta:        number(t, c.Params, "off_policy_mask_threshold"),
		FromSampling: true,
	}
	b := responses[T](t, c, "old_log_prob")
	b.Sampled = sampled[T](t, c, "sampling_log_prob")
	var kind string
	golden.Need(t, c.Params, "loss_type", &kind)
	a, rows := Aggregation{}, float64(b.Rows())
	tokens, full := count(b.Offsets, b.Mask)
	divisor := 1.0
	switch kind {
	case "grpo":
		a.Mode, divisor = SeqMeanTokenMean, rows/float64(full)
	case "dapo":
		divisor = max(number(t, c.Params, "num_items_in_batch"), 1) / float64(tokens)
	}
	got := mustEval(t, p, a, b)
	compare2026(t, tally, c, got, divisor)
	var keep []float64
	golden.Need(t, c.Expected, "keep", &keep)
	for row, k := range keep {
		if lo, hi := b.Offsets[row], b.Offsets[row+1]; k == 0 {
			require.Equal(t, make([]float64, hi-lo), got.Grad[lo:hi], "%s: row %d was kept", c.Name, row)
		}
	}
}

func slimeMask[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	clip := PPO{Low: number(t, c.Params, "eps_clip"), High: number(t, c.Params, "eps_clip_high"),
		Dual: optional(t, c.Params, "eps_clip_c", 0)}
	b := responses[T](t, c, "old_log_prob")
	got := sumOf(t, OffPolicyMask{Policy: clip, Delta: number(t, c.Params, "opsm_delta")}, b)
	perToken(t, tally, c, "grad_log_prob", got.Grad)
	want := flat[float64](expected(t, c, "token_loss"))
	for i, m := range b.Mask {
		if !m {
			want[i] = 0 // the original computes it there, too
		}
	}
	golden.Floats(t, tally, "token_loss", got.terms.Loss, want, c.Tolerance)
}

func supervised(t *testing.T, tally *golden.Tally, c golden.Case) {
	var kind string
	golden.Need(t, c.Params, "kind", &kind)
	weights, divisor := column[float64](t, c, "response_mask"), optional(t, c.Params, "num_items_in_batch", 1)
	if kind == "weighted" {
		weights, divisor = column[float64](t, c, "ce_weights"), number(t, c.Params, "ce_scale")
	}
	sum, grad := 0.0, make([]float64, len(weights))
	f := NLL
	if kind == "dft" {
		f = DFT
	}
	for i, x := range column[float64](t, c, "log_prob") {
		value, slope := f(x)
		if weights[i] != 0 {
			sum += weights[i] * value / max(divisor, 1)
			grad[i] = weights[i] * slope / max(divisor, 1)
		}
	}
	scalar(t, tally, c, "loss", sum)
	perToken(t, tally, c, "grad_log_prob", grad)
}

func verlDistill[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	o := DefaultOptions()
	golden.Need(t, c.Params, "loss_mode", &o.DistillKL)
	golden.Need(t, c.Params, "use_policy_gradient", &o.DistillPG)
	o.DistillClamp = optional(t, c.Params, "loss_max_clamp", 0)
	o.ClipLow, o.ClipHigh = optional(t, c.Params, "clip_ratio_low", 0.2), optional(t, c.Params, "clip_ratio_high", 0.2)
	o.DualClip = optional(t, c.Params, "clip_ratio_c", 3)
	p := built(t, "opd", o)
	b := responses[T](t, c, "old_log_prob")
	b.Ref = column[T](t, c, "teacher_log_prob")
	b.Advantage = b.Ref
	got := verlEval(t, tally, c, p, b)
	scalar(t, tally, c, "abs_loss", got.Metrics.Teacher.Abs)
	scalar(t, tally, c, "loss_min", got.Metrics.Teacher.Min)
	scalar(t, tally, c, "loss_max", got.Metrics.Teacher.Max)
	if o.DistillPG {
		scalar(t, tally, c, "pg_clipfrac", got.Metrics.ClipFraction)
		scalar(t, tally, c, "pg_clipfrac_lower", got.Metrics.ClipFractionLower)
	}
}

func primeDistill[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	p := built(t, "ref_kl", DefaultOptions())
	b := sampledResponses[T](t, c)
	b.Ref, b.Weight = column[T](t, c, "ref_log_prob"), column[T](t, c, "ref_kl_weights")
	b.Advantage = b.Ref
	for i, w := range b.Weight {
		b.Mask[i] = b.Mask[i] && w != 0 // weight 0 removes a token
	}
	compare2026(t, tally, c, sumOf(t, p, b), number(t, c.Params, "ref_kl_scale"))
	droppedShares(t, tally, c, "ref_kl_is_masked", p, b)
	rowMetrics(t, tally, c, "ref_kl_masked_mismatch_kl", p, b, func(m *Metrics) float64 { return m.Dropped.KL })
	rowMetrics(t, tally, c, "ref_kl_unmasked_mismatch_kl", p, b, func(m *Metrics) float64 { return m.Dropped.KLOfOthers })
}

func kdrl[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	rl, distill := number(t, c.Params, "rl_loss_weight"), number(t, c.Params, "distill_loss_weight")
	b := responses[T](t, c, "prox_log_prob")
	b.Ref = column[T](t, c, "teacher_log_prob")
	var p Policy = arealPPO(t, c)
	scale := rl
	if rl == 0 { // the teacher's log-ratio as an unclipped advantage, against the sampler
		b.OldLogProb = column[T](t, c, "old_log_prob")
		p, scale = Distill{KL: K1, Policy: PPO{Low: 1, High: 1e300}}, distill
	}
	r := mustEval(t, p, Aggregation{}, b)
	if rl != 0 {
		addKL(t, r, K1, distill/rl, Aggregation{}, b)
	}
	compare2026(t, tally, c, r, 1/scale)
}
