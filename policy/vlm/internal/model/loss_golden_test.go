package model

import (
	"encoding/json"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/devicetest"
)

// onDevice widens a recorded tolerance: some numbers were recorded in float64,
// the device computes in float32.
func onDevice(tol golden.Tolerance) golden.Tolerance {
	return golden.Tolerance{Abs: max(tol.Abs, 3e-6), Rel: max(tol.Rel, 1e-5)}
}

// recorded reads a matrix of a case, row after row, and its width.
func recorded(t testing.TB, fields map[string]json.RawMessage, name string) (flat []float64, width int) {
	t.Helper()
	var rows [][]float64
	golden.Need(t, fields, name, &rows)
	for _, row := range rows {
		flat, width = append(flat, row...), len(row)
	}
	return flat, width
}

// weights are the weights of a case's tokens under its mask and mode.
func weights(t testing.TB, c golden.Case, maskName string) []float64 {
	t.Helper()
	mask, width := recorded(t, c.Inputs, maskName)
	a := loss.Aggregation{Width: float64(width)}
	golden.Decode(t, c.Params, "loss_agg_mode", &a.Mode)
	offsets := []int{0}
	for at := width; at <= len(mask); at += width {
		offsets = append(offsets, at)
	}
	on := make([]bool, len(mask))
	for i, m := range mask {
		on[i] = m != 0
	}
	w, factor, err := a.Weights(nil, offsets, on)
	require.NoError(t, err)
	for i := range w {
		w[i] *= factor
	}
	return w
}

// number reads an optional number.
func number(t testing.TB, fields map[string]json.RawMessage, name string, otherwise float64) float64 {
	t.Helper()
	var v *float64
	if golden.Decode(t, fields, name, &v) && v != nil {
		return *v
	}
	return otherwise
}

const recordedSize = 128 // tokens of the largest case, rounded up

func TestPolicyLossOnTheDeviceAgreesWithRecordedOnes(t *testing.T) {
	for file, mask := range map[string]string{"algorithms/policy_loss.json": "eos_mask", "algorithms/lite_policy_loss.json": "response_mask"} {
		tally := golden.NewTally(t, file)
		l := newLosses(devicetest.Best(t), recordedSize)
		for _, c := range golden.Cases(t, file) {
			tally.Case()
			logProb, _ := recorded(t, c.Inputs, "log_prob")
			old, _ := recorded(t, c.Inputs, "old_log_prob")
			adv, _ := recorded(t, c.Inputs, "advantages")
			clip := number(t, c.Params, "clip_ratio", number(t, c.Params, "cliprange", 0))
			got := l.eval(t, Loss{Policy: true, PolicyLoss: PolicyLoss{Clamp: true}}, tokenScores{logProb, nil, nil},
				map[Column][]float64{OldLogProb: old, Advantage: adv, Weight: weights(t, c, mask)},
				map[HyperParam]float64{ClipLow: number(t, c.Params, "clip_ratio_low", clip),
					ClipHigh: number(t, c.Params, "clip_ratio_high", clip), ClipDual: number(t, c.Params, "clip_ratio_c", 0)})
			tol := onDevice(c.Tolerance)
			tally.Float(t, c.Name+": pg_loss", float64(got.stats[StatPolicy]), number(t, c.Expected, "pg_loss", 0), tol)
			grad, _ := recorded(t, c.Expected, "grad_log_prob")
			golden.Floats(t, tally, c.Name+": grad_log_prob", got.logProb, grad, tol)
			if mode := ""; !golden.Decode(t, c.Params, "loss_agg_mode", &mode) || mode == "token-mean" {
				tally.Float(t, c.Name+": pg_clipfrac", float64(got.stats[StatClipped]), number(t, c.Expected, "pg_clipfrac", 0), tol)
				tally.Float(t, c.Name+": pg_clipfrac_lower", float64(got.stats[StatClippedLow]), number(t, c.Expected, "pg_clipfrac_lower", 0), tol)
				tally.Float(t, c.Name+": ppo_kl", float64(got.stats[StatApproxKL]), number(t, c.Expected, "ppo_kl", 0), tol)
			}
		}
	}
}

func TestValueLossOnTheDeviceAgreesWithRecordedOnes(t *testing.T) {
	for file, mask := range map[string]string{"algorithms/value_loss.json": "eos_mask", "algorithms/lite_value_loss.json": "response_mask"} {
		tally := golden.NewTally(t, file)
		l := newLosses(devicetest.Best(t), recordedSize)
		for _, c := range golden.Cases(t, file) {
			tally.Case()
			value, _ := recorded(t, c.Inputs, "vpreds")
			old, _ := recorded(t, c.Inputs, "values")
			returns, _ := recorded(t, c.Inputs, "returns")
			// Here 0 means no clipping; a recorded range of 0 is one too narrow to move in.
			clip := max(number(t, c.Params, "cliprange_value", 0), 1e-30)
			got := l.eval(t, Loss{Value: true}, tokenScores{value: value},
				map[Column][]float64{OldValue: old, Return: returns, ValueWeight: weights(t, c, mask)},
				map[HyperParam]float64{ValueClip: clip, ValueCoef: 1})
			tol := onDevice(c.Tolerance)
			tally.Float(t, c.Name+": vf_loss", float64(got.stats[StatValue]), number(t, c.Expected, "vf_loss", 0), tol)
			grad, _ := recorded(t, c.Expected, "grad_vpreds")
			golden.Floats(t, tally, c.Name+": grad_vpreds", got.value, grad, tol)
		}
	}
}

func TestKLOnTheDeviceAgreesWithRecordedOnes(t *testing.T) {
	t.Parallel()
	const file = "algorithms/kl_penalty.json"
	kinds := map[string]string{"kl": "k1", "k1": "k1", "abs": "abs", "mse": "k2", "k2": "k2", "low_var_kl": "k3", "k3": "k3"}
	tally := golden.NewTally(t, file)
	l := newLosses(devicetest.Best(t), recordedSize)
	for _, c := range golden.Cases(t, file) {
		var name string
		golden.Need(t, c.Params, "kl_penalty", &name)
		kind, ok := kinds[name]
		if !ok {
			continue // an estimate that is not a loss term here
		}
		tally.Case()
		logProb, _ := recorded(t, c.Inputs, "logprob")
		ref, _ := recorded(t, c.Inputs, "ref_logprob")
		kl, _ := recorded(t, c.Expected, "kl")
		grad, _ := recorded(t, c.Expected, "grad_logprob")
		one, sum := make([]float64, len(kl)), 0.0
		for i := range one {
			one[i] = 1
			sum += kl[i]
		}
		got := l.eval(t, Loss{Policy: true, PolicyLoss: PolicyLoss{Clamp: true}, KL: loss.KL(kind)}, tokenScores{logProb, nil, nil},
			map[Column][]float64{OldLogProb: logProb, RefLogProb: ref, Weight: one}, map[HyperParam]float64{KLCoef: 1})
		tol := onDevice(c.Tolerance)
		golden.Floats(t, tally, c.Name+": grad_logprob", got.logProb, grad, tol)
		tally.Float(t, c.Name+": sum of kl", float64(got.stats[StatKL]), sum, tol)
	}
}

// logitHead reads logits where hidden states belong: its norm divides by 10⁶, up
// to less than float32 can tell, and multiplies by it, and its table is the
// identity.
func logitHead(vocab int) (Head, []operand) {
	const scale = 1e6
	norm, table := make([]float64, vocab), make([]float64, vocab*vocab)
	for i := range norm {
		norm[i], table[i*vocab+i] = scale, 1
	}
	return Head{Eps: scale * scale, Tokens: true}, []operand{floats(norm), floats(table, vocab, vocab)}
}

// The whole way from logits to the loss and back, at a temperature.
func TestActorLossOnTheDeviceAgreesWithRecordedOnes(t *testing.T) {
	t.Parallel()
	const file = "algorithms/actor_loss.json"
	kinds := map[string]string{"kl": "k1", "abs": "abs", "mse": "k2", "low_var_kl": "k3"}
	tally := golden.NewTally(t, file)
	l := newLosses(devicetest.Best(t), 0)
	for _, c := range golden.Cases(t, file) {
		tally.Case()
		var kind string
		var withKL bool
		golden.Need(t, c.Params, "kl_loss_type", &kind)
		golden.Need(t, c.Params, "use_kl_loss", &withKL)
		lossKind := Loss{Policy: true, PolicyLoss: PolicyLoss{Clamp: true}, Entropy: true}
		if withKL {
			lossKind.KL = loss.KL(kinds[kind])
		}
		columns := map[Column][]float64{Weight: weights(t, c, "response_mask")}
		for name, column := range map[string]Column{"old_log_prob": OldLogProb, "ref_log_prob": RefLogProb, "advantages": Advantage} {
			columns[column], _ = recorded(t, c.Inputs, name)
		}
		clip := number(t, c.Params, "clip_ratio", 0)
		grad, stats, scores := l.fromLogits(t, c, lossKind, columns, map[HyperParam]float64{ClipLow: clip, ClipHigh: clip,
			EntropyCoef: number(t, c.Params, "entropy_coeff", 0), KLCoef: number(t, c.Params, "kl_loss_coef", 0)})
		require.Len(t, scores[0], len(columns[Weight]))
		tol := onDevice(c.Tolerance)
		for name, stat := range map[string]Stat{"pg_loss": StatPolicy, "entropy_loss": StatEntropy, "kl_loss": StatKL, "pg_clipfrac": StatClipped, "ppo_kl": StatApproxKL} {
			if name == "kl_loss" && !withKL {
				continue
			}
			tally.Float(t, c.Name+": "+name, float64(stats[stat]), number(t, c.Expected, name, 0), tol)
		}
		// The recorded gradient is that of the loss divided by the number of
		// micro-batches; here that is the weights' business.
		accumulation := number(t, c.Params, "gradient_accumulation", 1)
		want := recordedCube(t, c.Expected, "grad_logits")
		for i := range want {
			want[i] *= accumulation
		}
		golden.Floats(t, tally, c.Name+": grad_logits", grad, want, tol)
	}
}

func TestEntropyAndLogProbOnTheDeviceAgreeWithRecordedOnes(t *testing.T) {
	t.Parallel()
	const file = "algorithms/entropy_logprob.json"
	tally := golden.NewTally(t, file)
	l := newLosses(devicetest.Best(t), 0)
	for _, c := range golden.Cases(t, file) {
		tally.Case()
		tol := onDevice(c.Tolerance)
		mask, _ := recorded(t, c.Inputs, "eos_mask")
		// −Σ mask·log-prob, and the mean entropy over the mask.
		grad, _, scores := l.fromLogits(t, c, Loss{Imitate: true}, map[Column][]float64{Weight: mask}, nil)
		want := recordedCube(t, c.Expected, "grad_sum_masked_log_probs_logits")
		for i := range want {
			want[i] = -want[i]
		}
		golden.Floats(t, tally, c.Name+": grad_sum_masked_log_probs_logits", grad, want, tol)
		for i, name := range []string{"log_probs", "entropy"} {
			x, _ := recorded(t, c.Expected, name)
			golden.Floats(t, tally, c.Name+": "+name, scores[i], x, tol)
		}
		// With an advantage of 0 only the entropy bonus, −coef·entropy, is left.
		grad, stats, _ := l.fromLogits(t, c, Loss{Policy: true, PolicyLoss: PolicyLoss{Clamp: true}, Entropy: true}, map[Column][]float64{Weight: weights(t, c, "eos_mask")},
			map[HyperParam]float64{EntropyCoef: -1})
		golden.Floats(t, tally, c.Name+": grad_entropy_loss_logits", grad, recordedCube(t, c.Expected, "grad_entropy_loss_logits"), tol)
		tally.Float(t, c.Name+": entropy_loss", float64(stats[StatEntropy]), number(t, c.Expected, "entropy_loss", 0), tol)
	}
}

func recordedCube(t testing.TB, fields map[string]json.RawMessage, name string) []float64 {
	t.Helper()
	var cube [][][]float64
	golden.Need(t, fields, name, &cube)
	var flat []float64
	for _, rows := range cube {
		for _, row := range rows {
			flat = append(flat, row...)
		}
	}
	return flat
}

// fromLogits runs the head and the loss on a case's logits and labels and
// returns the gradient of the logits, the statistics, and log-probs, entropies.
func (l *losses) fromLogits(t *testing.T, c golden.Case, kind Loss, columns map[Column][]float64, hyper map[HyperParam]float64) (grad, stats []float32, scores [2][]float32) {
	t.Helper()
	logits := recordedCube(t, c.Inputs, "logits")
	labels, _ := recorded(t, c.Inputs, "labels")
	n, vocab := len(labels), len(logits)/len(labels)
	at, target := make([]int32, n), make([]int32, n)
	cols := operand{f: make([]float64, n*int(Columns)), dims: []int{n, int(Columns)}}
	for i, label := range labels {
		at[i], target[i] = int32(i), int32(label)
		for c, x := range columns {
			cols.f[i*int(Columns)+int(c)] = x[i]
		}
	}
	numbers := operand{f: make([]float64, HyperParams), dims: []int{int(HyperParams)}}
	numbers.f[Temperature] = number(t, c.Params, "temperature", 1)
	for h, v := range hyper {
		numbers.f[h] = v
	}
	h, w := logitHead(vocab)
	in := append(w, floats(logits, n, vocab), ints(at), ints(target), cols, numbers)
	key := "logits " + kind.Key()
	if l.programs[key] == nil {
		l.programs[key] = l.dev.Program(key, func(in []*Node) []*Node {
			w := h.Weights(in[:2])
			x, at, target, cols, hyper := in[2], in[3], in[4], in[5], in[6]
			lp, ent, _ := h.Forward(w, x, at, target, Hyper(hyper, Temperature))
			dx, _, stats := h.Update(w, &kind, x, at, at, target, cols, hyper, ZerosLike(x), nil)
			return []*Node{dx, stats, lp, ent}
		})
	}
	out := runProgram(t, l.dev, l.programs[key], in)
	return out[0], out[1], [2][]float32{out[2], out[3]}
}
