package loss

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// padded is a recorded matrix: rows of equal width.
type padded [][]float64

func (p padded) offsets() []int {
	out := []int{0}
	for _, row := range p {
		out = append(out, out[len(out)-1]+len(row))
	}
	return out
}

func (p padded) mask() []bool {
	out := []bool{}
	for _, v := range slices.Concat(p...) {
		out = append(out, v != 0)
	}
	return out
}

func (p padded) width() float64 { return float64(len(p[0])) }

func input(c *golden.Run, name string) padded {
	c.Helper()
	return golden.Input[padded](c, name)
}

func column[T Float](c *golden.Run, name string) []T {
	c.Helper()
	var out []T
	for _, v := range c.Flat(c.Inputs, name) {
		out = append(out, T(v))
	}
	return out
}

func aggregation(c *golden.Run, width float64) Aggregation {
	c.Helper()
	return Aggregation{Mode: golden.Param[Mode](c, "loss_agg_mode"), Width: width}
}

// TestLossesAgreeWithTheirOriginals compares every recorded case, in the precision that it was recorded in.
func TestLossesAgreeWithTheirOriginals(t *testing.T) {
	for file, in := range map[string]struct{ in64, in32 func(*golden.Run) }{
		"algorithms/actor_loss.json":            {actorCase, actorCase},
		"algorithms/agg_loss.json":              {aggregateCase[float64], aggregateCase[float32]},
		"algorithms/entropy_logprob.json":       {entropyCase, entropyCase},
		"algorithms/kl_penalty.json":            {klCase, klCase},
		"algorithms/lite_policy_loss.json":      {litePolicy[float64], litePolicy[float32]},
		"algorithms/lite_value_loss.json":       {valueCase[float64]("response_mask"), valueCase[float32]("response_mask")},
		"algorithms/policy_loss.json":           {forkPolicy[float64], forkPolicy[float32]},
		"algorithms/value_loss.json":            {valueCase[float64]("eos_mask"), valueCase[float32]("eos_mask")},
		"algorithms_2026/distillation_trl.json": {gkd, gkd},
		"algorithms_2026/dppo_prime.json":       {primeDPPO[float64], primeDPPO[float32]},
		"algorithms_2026/dppo_skyrl.json":       {skyrl[float64], skyrl[float32]},
		"algorithms_2026/dppo_verl.json":        {verlDPPO[float64], verlDPPO[float32]},
		"algorithms_2026/dro.json":              {verlDRO[float64], verlDRO[float32]},
		"algorithms_2026/kdrl_areal.json":       {kdrl[float64], kdrl[float32]},
		"algorithms_2026/luspo.json":            {trlLUSPO[float64], trlLUSPO[float32]},
		"algorithms_2026/m2po.json":             {areal[float64], areal[float32]},
		"algorithms_2026/opd_topk_verl.json":    {verlTopK, verlTopK},
		"algorithms_2026/opd_verl.json":         {verlDistill[float64], verlDistill[float32]},
		"algorithms_2026/opsm_slime.json":       {slimeMask[float64], slimeMask[float32]},
		"algorithms_2026/opsm_trl.json":         {trlMask[float64], trlMask[float32]},
		"algorithms_2026/ref_kl_prime.json":     {primeDistill[float64], primeDistill[float32]},
		"algorithms_2026/sdft_tinker.json":      {sdftTinker, sdftTinker},
		"algorithms_2026/sdft_trl.json":         {sdftTRL, sdftTRL},
		"algorithms_2026/sft.json":              {supervised, supervised},
		"algorithms_2026/vespo.json":            {trlVESPO[float64], trlVESPO[float32]},
		"algorithms_next/turn_losses.json":      {turnCase[float64], turnCase[float32]},
	} {
		golden.Each(t, file, func(c *golden.Run) {
			if c.DType == "float32" {
				in.in32(c)
			} else {
				in.in64(c)
			}
		})
	}
}

func forkPolicy[T Float](c *golden.Run) {
	clip := c.Param("cliprange")
	comparePolicy[T](c, PPO{Low: clip, High: clip}, "eos_mask")
}

func litePolicy[T Float](c *golden.Run) {
	clip := c.Param("clip_ratio")
	p := LitePPO()
	p.Low = c.Optional("clip_ratio_low", clip)
	p.High = c.Optional("clip_ratio_high", clip)
	p.Dual = c.Param("clip_ratio_c")
	got := comparePolicy[T](c, p, "response_mask")
	c.Number("pg_clipfrac_lower", got.Metrics.ClipFractionLower)
}

func comparePolicy[T Float](c *golden.Run, p Policy, maskName string) *Result {
	c.Helper()
	mask := input(c, maskName)
	got := mustEval(c, p, aggregation(c, mask.width()), &Batch[T]{
		Offsets: mask.offsets(), Mask: mask.mask(),
		LogProb:    column[T](c, "log_prob"),
		OldLogProb: column[T](c, "old_log_prob"),
		Advantage:  column[T](c, "advantages"),
	})
	c.Number("pg_loss", got.Loss)
	c.Number("pg_clipfrac", got.Metrics.ClipFraction)
	c.Number("ppo_kl", got.Metrics.KL)
	golden.Numbers(c, "grad_log_prob", got.Grad)
	return got
}

func valueCase[T Float](maskName string) func(*golden.Run) {
	return func(c *golden.Run) {
		mask := input(c, maskName)
		v := Value{Clip: c.Param("cliprange_value")}
		now, old, ret := column[T](c, "vpreds"), column[T](c, "values"), column[T](c, "returns")
		value, slope, clipped := make([]float64, len(now)), make([]float64, len(now)), 0.0
		in := mask.mask()
		for i, m := range in {
			var bound bool
			value[i], slope[i], bound = v.Of(float64(now[i]), float64(old[i]), float64(ret[i]))
			if m && bound {
				clipped++
			}
		}
		got := aggregated(c, aggregation(c, mask.width()), mask.offsets(), in, value, slope)
		c.Number("vf_loss", got.Loss)
		c.Number("vf_clipfrac", clipped/float64(countTrue(in)))
		golden.Numbers(c, "grad_vpreds", got.Grad)
	}
}

func aggregateCase[T Float](c *golden.Run) {
	mask := input(c, "loss_mask")
	var perToken []float64
	convert(&perToken, column[T](c, "loss_mat"))
	got := aggregated(c, aggregation(c, mask.width()), mask.offsets(), mask.mask(), perToken, perToken)
	c.Number("loss", got.Loss)
}

// aggregated aggregates losses of tokens and their slopes as Eval does.
func aggregated(t testing.TB, a Aggregation, offsets []int, mask []bool, value, slope []float64) *Result {
	t.Helper()
	r := Result{terms: Terms{Loss: value, Slope: slope}}
	var err error
	r.weights, err = a.Weights(nil, offsets, mask)
	require.NoError(t, err)
	require.NoError(t, r.sum(offsets, mask))
	return &r
}

func klCase(c *golden.Run) {
	kind := golden.Param[string](c, "kl_penalty")
	logp, ref := column[float64](c, "logprob"), column[float64](c, "ref_logprob")
	value, slope := make([]float64, len(logp)), make([]float64, len(logp))
	for i := range logp {
		var err error
		if value[i], slope[i], err = KL(kind).Of(logp[i], ref[i]); err != nil {
			c.Fatal(err)
		}
	}
	golden.Numbers(c, "kl", value)
	golden.Numbers(c, "grad_logprob", slope)
}
