package loss

import (
	"math"
	"slices"
	"testing"

	"vagen/internal/golden"
)

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

// model is what a model returns for recorded logits, in plain Go: from it a loss is evaluated, and its derivatives
// go back to the logits.
type model struct {
	vocab
	labels      []int
	temperature float64
	// of the labels, and of the distributions
	logProb, entropy []float64
}

func modelOf(c *golden.Run) *model {
	c.Helper()
	m := &model{temperature: c.Param("temperature")}
	m.vocab = logSoftmax(c, "logits", m.temperature)
	for i, v := range column[float64](c, "labels") {
		m.labels = append(m.labels, int(v))
		m.logProb = append(m.logProb, m.row(i)[int(v)])
		h := 0.0
		for _, lp := range m.row(i) {
			h -= math.Exp(lp) * lp
		}
		m.entropy = append(m.entropy, h)
	}
	return m
}

// row are the log-probs of all tokens at a position.
func (m *model) row(i int) []float64 { return m.vocab.logProb[i*m.size:][:m.size] }

// back is the gradient by the logits from those by log-prob and entropy, of which either may be nil:
// ∂log-prob/∂logit_j = (1{j = label} − p_j)/T, ∂entropy/∂logit_j = −p_j·(ln p_j + entropy)/T.
func (m *model) back(byLogProb, byEntropy []float64) []float64 {
	out := make([]float64, len(m.labels)*m.size)
	for i, label := range m.labels {
		for j, lp := range m.row(i) {
			g := 0.0
			if byLogProb != nil {
				g -= byLogProb[i] * math.Exp(lp)
				if j == label {
					g += byLogProb[i]
				}
			}
			if byEntropy != nil {
				g -= byEntropy[i] * math.Exp(lp) * (lp + m.entropy[i])
			}
			out[i*m.size+j] = g / m.temperature
		}
	}
	return out
}

func entropyCase(c *golden.Run) {
	m := modelOf(c)
	mask := input(c, "eos_mask")
	golden.Numbers(c, "entropy", m.entropy)
	golden.Numbers(c, "log_probs", m.logProb)
	mean := aggregated(c, Aggregation{}, mask.offsets(), mask.mask(), m.entropy,
		slices.Repeat([]float64{1}, len(m.entropy)))
	c.Number("entropy_loss", mean.Loss)
	golden.Numbers(c, "grad_entropy_loss_logits", m.back(nil, mean.Grad))
	golden.Numbers(c, "grad_sum_masked_log_probs_logits", m.back(slices.Concat(mask...), nil))
}

func actorCase(c *golden.Run) {
	parts := c.Param("gradient_accumulation")
	m := modelOf(c)
	mask := input(c, "response_mask")
	b := &Batch[float64]{
		Offsets: mask.offsets(), Mask: mask.mask(), LogProb: m.logProb,
		OldLogProb: column[float64](c, "old_log_prob"),
		Ref:        column[float64](c, "ref_log_prob"),
		Advantage:  column[float64](c, "advantages"),
	}
	clip := c.Param("clip_ratio")
	got := mustEval(c, PPO{Low: clip, High: clip}, Aggregation{}, b)
	c.Number("pg_loss", got.Loss)
	if kind := golden.Param[string](c, "kl_loss_type"); golden.Param[bool](c, "use_kl_loss") {
		c.Number("kl_loss", addKL(c, got, KL(kind), c.Param("kl_loss_coef"), Aggregation{}, b))
	}
	coef := c.Param("entropy_coeff")
	entropy := aggregated(c, Aggregation{}, b.Offsets, b.Mask, m.entropy,
		slices.Repeat([]float64{-coef}, len(m.entropy)))
	whole := got.Loss - coef*entropy.Loss
	for name, v := range map[string]float64{
		"entropy_loss": entropy.Loss, "policy_loss": whole, "loss": whole / parts,
		"pg_clipfrac": got.Metrics.ClipFraction, "ppo_kl": got.Metrics.KL,
	} {
		c.Number(name, v)
	}
	grad := m.back(got.Grad, entropy.Grad)
	for i := range grad {
		grad[i] /= parts
	}
	golden.Numbers(c, "grad_logits", grad)
}

// addKL adds a KL term to a policy loss and returns it without its coefficient.
func addKL[T Float](t testing.TB, r *Result, kl KL, coef float64, a Aggregation, b *Batch[T]) float64 {
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

func turnCase[T Float](c *golden.Run) {
	name := golden.Param[string](c, "loss")
	clip := c.Param("clip_ratio")
	o := DefaultOptions()
	o.ClipLow = c.Optional("clip_ratio_low", clip)
	o.ClipHigh = c.Optional("clip_ratio_high", clip)
	p := built(c, name, o)
	b := responses[T](c, "old_log_prob")
	for _, id := range column[float64](c, "turn_id") {
		b.Turn = append(b.Turn, int32(id))
	}
	b.Weight = sampled[T](c, "rollout_is_weights")
	got := mustEval(c, p, Aggregation{}, b)
	_, rows := count(b.Offsets, b.Mask)
	all := float64(rows)
	scale := c.Optional("dp_size", 1) * all / c.Optional("global_batch_size", all)
	compare2026(c, got, 1/scale)
	for field, v := range map[string]float64{
		"pg_clipfrac": got.Metrics.ClipFraction, "ppo_kl": got.Metrics.KL,
		"turns_per_row": got.Metrics.TurnsPerRow, "turn_len_mean": got.Metrics.TurnLength,
		"turn_log_ratio_std": got.Metrics.TurnLogRatioStd,
	} {
		c.Number(field, v)
	}
}
