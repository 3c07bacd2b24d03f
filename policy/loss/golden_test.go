package loss

import (
	"testing"

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

func aggregation(t *testing.T, c golden.Case, width float64) Aggregation {
	t.Helper()
	var mode string
	golden.Need(t, c.Params, "loss_agg_mode", &mode)
	return Aggregation{Mode: Mode(mode), Width: width}
}

// eachCase runs f once per case, in the precision that the case was recorded in.
func eachCase(t *testing.T, file string, in64, in32 func(*testing.T, *golden.Tally, golden.Case)) {
	t.Helper()
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		t.Run(c.Name, func(t *testing.T) {
			tally.Case()
			if c.DType == "float32" {
				in32(t, tally, c)
			} else {
				in64(t, tally, c)
			}
		})
	}
}

func TestPolicyLossAgreesWithTheForkOfVerl(t *testing.T) {
	eachCase(t, "algorithms/policy_loss.json", forkPolicy[float64], forkPolicy[float32])
}

func forkPolicy[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	clip := number(t, c.Params, "cliprange")
	comparePolicy[T](t, tally, c, PPO{Low: clip, High: clip}, "eos_mask")
}

func TestPolicyLossAgreesWithVerl(t *testing.T) {
	eachCase(t, "algorithms/lite_policy_loss.json", litePolicy[float64], litePolicy[float32])
}

func litePolicy[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	clip := number(t, c.Params, "clip_ratio")
	p := LitePPO()
	p.Low = optional(t, c.Params, "clip_ratio_low", clip)
	p.High = optional(t, c.Params, "clip_ratio_high", clip)
	p.Dual = number(t, c.Params, "clip_ratio_c")
	got := comparePolicy[T](t, tally, c, p, "response_mask")
	tally.Float(t, "pg_clipfrac_lower", got.Metrics.ClipFractionLower, number(t, c.Expected, "pg_clipfrac_lower"), c.Tolerance)
}

func comparePolicy[T Float](t *testing.T, tally *golden.Tally, c golden.Case, p Policy, maskName string) *Result {
	t.Helper()
	mask := input(t, c, maskName)
	var got Result
	err := Eval(&got, p, aggregation(t, c, mask.width()), &Batch[T]{
		Offsets: mask.offsets(), Mask: mask.mask(),
		LogProb:    column[T](t, c, "log_prob"),
		OldLogProb: column[T](t, c, "old_log_prob"),
		Advantage:  column[T](t, c, "advantages"),
	})
	if err != nil {
		t.Fatal(err)
	}
	tally.Float(t, "pg_loss", got.Loss, number(t, c.Expected, "pg_loss"), c.Tolerance)
	tally.Float(t, "pg_clipfrac", got.Metrics.ClipFraction, number(t, c.Expected, "pg_clipfrac"), c.Tolerance)
	tally.Float(t, "ppo_kl", got.Metrics.KL, number(t, c.Expected, "ppo_kl"), c.Tolerance)
	var grad padded
	golden.Need(t, c.Expected, "grad_log_prob", &grad)
	golden.Floats(t, tally, "grad_log_prob", got.Grad, flat[float64](grad), c.Tolerance)
	return &got
}

func TestValueLossAgreesWithTheForkOfVerl(t *testing.T) {
	f64, f32 := valueCase[float64]("eos_mask"), valueCase[float32]("eos_mask")
	eachCase(t, "algorithms/value_loss.json", f64, f32)
}

func TestValueLossAgreesWithVerl(t *testing.T) {
	f64, f32 := valueCase[float64]("response_mask"), valueCase[float32]("response_mask")
	eachCase(t, "algorithms/lite_value_loss.json", f64, f32)
}

func valueCase[T Float](maskName string) func(*testing.T, *golden.Tally, golden.Case) {
	return func(t *testing.T, tally *golden.Tally, c golden.Case) {
		mask := input(t, c, maskName)
		var got ValueResult
		err := EvalValue(&got, Value{Clip: number(t, c.Params, "cliprange_value")}, aggregation(t, c, mask.width()), &ValueBatch[T]{
			Offsets: mask.offsets(), Mask: mask.mask(),
			Value:    column[T](t, c, "vpreds"),
			OldValue: column[T](t, c, "values"),
			Return:   column[T](t, c, "returns"),
		})
		if err != nil {
			t.Fatal(err)
		}
		tally.Float(t, "vf_loss", got.Loss, number(t, c.Expected, "vf_loss"), c.Tolerance)
		tally.Float(t, "vf_clipfrac", got.Metrics.ClipFraction, number(t, c.Expected, "vf_clipfrac"), c.Tolerance)
		var grad padded
		golden.Need(t, c.Expected, "grad_vpreds", &grad)
		golden.Floats(t, tally, "grad_vpreds", got.Grad, flat[float64](grad), c.Tolerance)
	}
}

func TestAggregationAgreesWithVerl(t *testing.T) {
	eachCase(t, "algorithms/agg_loss.json", aggregateCase[float64], aggregateCase[float32])
}

func aggregateCase[T Float](t *testing.T, tally *golden.Tally, c golden.Case) {
	mask := input(t, c, "loss_mask")
	got, _, err := Aggregate(nil, aggregation(t, c, mask.width()), mask.offsets(), mask.mask(), column[T](t, c, "loss_mat"))
	if err != nil {
		t.Fatal(err)
	}
	tally.Float(t, "loss", got, number(t, c.Expected, "loss"), c.Tolerance)
}

func TestKLAgreesWithBothSystems(t *testing.T) {
	eachCase(t, "algorithms/kl_penalty.json", klCase, klCase)
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
	var kl, grad padded
	golden.Need(t, c.Expected, "kl", &kl)
	golden.Need(t, c.Expected, "grad_logprob", &grad)
	golden.Floats(t, tally, "kl", value, flat[float64](kl), c.Tolerance)
	golden.Floats(t, tally, "grad_logprob", slope, flat[float64](grad), c.Tolerance)
}
