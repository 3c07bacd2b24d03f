package loss

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// padded is a recorded matrix: rows of equal width.
type padded [][]float64

// flat concatenates the rows; the padding stays, as tokens outside the mask.
func flat[T Float](p padded) []T {
	var out []T
	for _, row := range p {
		for _, v := range row {
			out = append(out, T(v))
		}
	}
	return out
}

func (p padded) offsets() []int {
	out := []int{0}
	for _, row := range p {
		out = append(out, out[len(out)-1]+len(row))
	}
	return out
}

func (p padded) mask() []bool {
	out := []bool{}
	for _, v := range flat[float64](p) {
		out = append(out, v != 0)
	}
	return out
}

func (p padded) width() float64 { return float64(len(p[0])) }

func input(t *testing.T, c golden.Case, name string) padded {
	t.Helper()
	var p padded
	golden.Need(t, c.Inputs, name, &p)
	return p
}

func column[T Float](t *testing.T, c golden.Case, name string) []T {
	t.Helper()
	return flat[T](input(t, c, name))
}

func number(t *testing.T, fields map[string]rawMessage, name string) float64 {
	t.Helper()
	var v float64
	golden.Need(t, fields, name, &v)
	return v
}

// optional returns a number that may be absent or null.
func optional(t *testing.T, fields map[string]rawMessage, name string, fallback float64) float64 {
	t.Helper()
	var v *float64
	if golden.Decode(t, fields, name, &v) && v != nil {
		return *v
	}
	return fallback
}

func expected(t *testing.T, c golden.Case, name string) (out padded) {
	t.Helper()
	golden.Need(t, c.Expected, name, &out)
	return out
}

// scalar compares a number with the recorded one.
func scalar(t *testing.T, tally *golden.Tally, c golden.Case, name string, got float64) {
	t.Helper()
	tally.Float(t, name, got, number(t, c.Expected, name), c.Tolerance)
}

// perToken compares numbers of tokens with the recorded ones.
func perToken(t *testing.T, tally *golden.Tally, c golden.Case, name string, got []float64) {
	t.Helper()
	golden.Floats(t, tally, name, got, flat[float64](expected(t, c, name)), c.Tolerance)
}

func aggregation(t *testing.T, c golden.Case, width float64) Aggregation {
	t.Helper()
	var mode string
	golden.Need(t, c.Params, "loss_agg_mode", &mode)
	return Aggregation{Mode: Mode(mode), Width: width}
}

// TestLossesAgreeWithTheirOriginals compares every recorded case, in the precision that it was recorded in.
func TestLossesAgreeWithTheirOriginals(t *testing.T) {
	for file, in := range map[string]struct {
		in64, in32 func(*testing.T, *golden.Tally, golden.Case)
	}{
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
		tally := golden.NewTally(t, file)
		for _, c := range golden.Cases(t, file) {
			compare := in.in64
			if c.DType == "float32" {
				compare = in.in32
			}
			t.Run(file+"/"+c.Name, func(t *testing.T) {
				tally.Case()
				compare(t, tally, c)
			})
		}
	}
}

func forkPolicy[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	clip := number(t, c.Params, "cliprange")
	comparePolicy[T](t, tally, c, PPO{Low: clip, High: clip}, "eos_mask")
}

func litePolicy[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	clip := number(t, c.Params, "clip_ratio")
	p := LitePPO()
	p.Low = optional(t, c.Params, "clip_ratio_low", clip)
	p.High = optional(t, c.Params, "clip_ratio_high", clip)
	p.Dual = number(t, c.Params, "clip_ratio_c")
	got := comparePolicy[T](t, tally, c, p, "response_mask")
	scalar(t, tally, c, "pg_clipfrac_lower", got.Metrics.ClipFractionLower)
}

func comparePolicy[T Float](t *testing.T, tally *golden.Tally, c golden.Case, p Policy, maskName string) *Result {
	t.Helper()
	mask := input(t, c, maskName)
	got := mustEval(t, p, aggregation(t, c, mask.width()), &Batch[T]{
		Offsets: mask.offsets(), Mask: mask.mask(),
		LogProb:    column[T](t, c, "log_prob"),
		OldLogProb: column[T](t, c, "old_log_prob"),
		Advantage:  column[T](t, c, "advantages"),
	})
	scalar(t, tally, c, "pg_loss", got.Loss)
	scalar(t, tally, c, "pg_clipfrac", got.Metrics.ClipFraction)
	scalar(t, tally, c, "ppo_kl", got.Metrics.KL)
	perToken(t, tally, c, "grad_log_prob", got.Grad)
	return got
}

func valueCase[T Float](maskName string) func(*testing.T, *golden.Tally, golden.Case) {
	return func(t *testing.T, tally *golden.Tally, c golden.Case) {
		mask := input(t, c, maskName)
		v := Value{Clip: number(t, c.Params, "cliprange_value")}
		now, old, ret := column[T](t, c, "vpreds"), column[T](t, c, "values"), column[T](t, c, "returns")
		value, slope, clipped := make([]float64, len(now)), make([]float64, len(now)), 0.0
		in := mask.mask()
		for i, m := range in {
			var bound bool
			value[i], slope[i], bound = v.Of(float64(now[i]), float64(old[i]), float64(ret[i]))
			if m && bound {
				clipped++
			}
		}
		got := aggregated(t, aggregation(t, c, mask.width()), mask.offsets(), in, value, slope)
		scalar(t, tally, c, "vf_loss", got.Loss)
		scalar(t, tally, c, "vf_clipfrac", clipped/float64(countTrue(in)))
		perToken(t, tally, c, "grad_vpreds", got.Grad)
	}
}

func aggregateCase[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	mask := input(t, c, "loss_mask")
	var perToken []float64
	convert(&perToken, column[T](t, c, "loss_mat"))
	got := aggregated(t, aggregation(t, c, mask.width()), mask.offsets(), mask.mask(), perToken, perToken)
	scalar(t, tally, c, "loss", got.Loss)
}

// aggregated aggregates losses of tokens and their slopes as Eval does.
func aggregated(t *testing.T, a Aggregation, offsets []int, mask []bool, value, slope []float64) *Result {
	t.Helper()
	r := Result{terms: Terms{Loss: value, Slope: slope}}
	var err error
	r.weights, err = a.Weights(nil, offsets, mask)
	require.NoError(t, err)
	require.NoError(t, r.sum(offsets, mask))
	return &r
}

func klCase(t *testing.T, tally *golden.Tally, c golden.Case) {
	var kind string
	golden.Need(t, c.Params, "kl_penalty", &kind)
	logp, ref := column[float64](t, c, "logprob"), column[float64](t, c, "ref_logprob")
	value, slope := make([]float64, len(logp)), make([]float64, len(logp))
	for i := range logp {
		var err error
		if value[i], slope[i], err = KL(kind).Of(logp[i], ref[i]); err != nil {
			t.Fatal(err)
		}
	}
	perToken(t, tally, c, "kl", value)
	perToken(t, tally, c, "grad_logprob", slope)
}
