package model

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/devicetest"
)

// recordedBatch reads a recorded policy loss with its weights. The recorded
// aggregation is used unless the loss insists on one.
func recordedBatch(t *testing.T, c golden.Case, maskName string, a loss.Aggregation) (b *loss.Batch[float64], weight []float64) {
	t.Helper()
	mask, width := recorded(t, c.Inputs, maskName)
	b = &loss.Batch[float64]{Offsets: []int{0}, Mask: make([]bool, len(mask))}
	for at := width; at <= len(mask); at += width {
		b.Offsets = append(b.Offsets, at)
	}
	for i, m := range mask {
		b.Mask[i] = m != 0
	}
	b.LogProb, _ = recorded(t, c.Inputs, "log_prob")
	b.OldLogProb, _ = recorded(t, c.Inputs, "old_log_prob")
	b.Advantage, _ = recorded(t, c.Inputs, "advantages")
	if _, ok := c.Inputs["rollout_is_weights"]; ok {
		b.Weight, _ = recorded(t, c.Inputs, "rollout_is_weights")
	}
	if _, ok := c.Inputs["turn_id"]; ok {
		turns, _ := recorded(t, c.Inputs, "turn_id")
		for _, id := range turns {
			b.Turn = append(b.Turn, int32(id))
		}
	}
	a.Width = float64(width)
	if a.Mode == "" {
		golden.Decode(t, c.Params, "loss_agg_mode", &a.Mode)
	}
	weight, factor, err := a.Weights(nil, b.Offsets, b.Mask)
	require.NoError(t, err)
	for i := range weight {
		weight[i] *= factor
	}
	return b, weight
}

// sizeFor is one more than the tokens of the largest case.
func sizeFor(t *testing.T, cases []golden.Case) int {
	t.Helper()
	size := 0
	for _, c := range cases {
		x, _ := recorded(t, c.Inputs, "log_prob")
		size = max(size, len(x))
	}
	return size + 1
}

// compareLoss holds value, gradient and figures against what was recorded, as
// far as it was.
func compareLoss(t *testing.T, tally *golden.Tally, c golden.Case, got jointResult, value string, figures map[string]JointStat) {
	t.Helper()
	tol := onDevice(c.Tolerance)
	tally.Float(t, c.Name+": "+value, got.stats[StatPolicy], number(t, c.Expected, value, 0), tol)
	grad, _ := recorded(t, c.Expected, "grad_log_prob")
	golden.Floats(t, tally, c.Name+": grad_log_prob", got.slopes, grad, tol)
	for name, f := range figures {
		if _, ok := c.Expected[name]; ok {
			tally.Float(t, c.Name+": "+name, got.figures[f], number(t, c.Expected, name, 0), tol)
		}
	}
}

func TestTurnLossesOnTheDeviceAgreeWithRecordedOnes(t *testing.T) {
	t.Parallel()
	const file = "algorithms_next/turn_losses.json"
	tally := golden.NewTally(t, file)
	cases := golden.Cases(t, file)
	j := newJointRuns(devicetest.Best(t), sizeFor(t, cases))
	for _, c := range cases {
		tally.Case()
		var name string
		golden.Need(t, c.Params, "loss", &name)
		p, err := loss.Builtin().New(name, loss.DefaultOptions())
		require.NoError(t, err)
		graph, _, _ := KernelOf(p)
		a := loss.Aggregation{Mode: loss.SeqMeanTokenSum, Norm: loss.Norm{
			Rows: int(number(t, c.Params, "global_batch_size", 0)), Workers: int(number(t, c.Params, "dp_size", 0))}}
		b, weight := recordedBatch(t, c, "response_mask", a)
		clip := number(t, c.Params, "clip_ratio", 0)
		got := j.eval(t, JointLoss{PolicyLoss: graph, Rollout: b.Weight != nil}, b, weight, nil, nil, map[HyperParam]float64{
			ClipLow: number(t, c.Params, "clip_ratio_low", clip), ClipHigh: number(t, c.Params, "clip_ratio_high", clip)})
		compareLoss(t, tally, c, got, "loss", map[string]JointStat{"pg_clipfrac": JointStatClipped, "ppo_kl": JointStatKL, "turn_log_ratio_std": JointStatStd})
	}
}

func TestPolicyLossWithoutBoundsAgreesWithRecordedOnes(t *testing.T) {
	t.Parallel()
	const file = "algorithms/policy_loss.json"
	tally := golden.NewTally(t, file)
	cases := golden.Cases(t, file)
	j := newJointRuns(devicetest.Best(t), sizeFor(t, cases))
	for _, c := range cases {
		tally.Case()
		b, weight := recordedBatch(t, c, "eos_mask", loss.Aggregation{})
		clip := number(t, c.Params, "cliprange", 0)
		got := j.eval(t, JointLoss{PolicyLoss: PolicyLoss{Kind: PPO}}, b, weight, nil, nil,
			map[HyperParam]float64{ClipLow: clip, ClipHigh: clip})
		compareLoss(t, tally, c, got, "pg_loss", map[string]JointStat{"pg_clipfrac": JointStatClipped, "ppo_kl": JointStatKL})
	}
}

// The recordings beside package policy/loss have the losses that the shared
// ones lack.
func TestTheOtherPolicyLossesOnTheDeviceAgreeWithRecordedOnes(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "loss", "testdata", "policy_losses.json"))
	require.NoError(t, err)
	var file struct{ Cases []golden.Case }
	require.NoError(t, json.Unmarshal(raw, &file))
	require.NotEmpty(t, file.Cases)
	tally := golden.NewTally(t, "policy_losses.json")
	j := newJointRuns(devicetest.Best(t), sizeFor(t, file.Cases))
	for _, c := range file.Cases {
		tally.Case()
		var name string
		golden.Need(t, c.Params, "loss", &name)
		o := recordedOptions(t, c)
		plain, err := loss.Builtin().New(name, o)
		require.NoError(t, err)
		graph, hyper, _ := KernelOf(plain)
		mode, err := loss.ModeOf(plain)
		require.NoError(t, err)
		b, weight := recordedBatch(t, c, "response_mask", loss.Aggregation{Mode: mode})
		chosen, err := loss.Chosen(nil, plain, b)
		require.NoError(t, err)
		got := j.eval(t, JointLoss{PolicyLoss: graph, Rollout: b.Weight != nil}, b, weight, nil, chosen, hyper)
		compareLoss(t, tally, c, got, "loss", map[string]JointStat{"pg_clipfrac": JointStatClipped, "pg_clipfrac_lower": JointStatClippedLow})
	}
}

// recordedOptions are the recorded settings on top of the defaults.
func recordedOptions(t *testing.T, c golden.Case) loss.Options {
	t.Helper()
	o := loss.DefaultOptions()
	for field, dst := range map[string]*float64{
		"clip_ratio_low": &o.ClipLow, "clip_ratio_high": &o.ClipHigh, "tau_pos": &o.TauPos, "tau_neg": &o.TauNeg,
		"clip_cov_ratio": &o.ClipCovRatio, "clip_cov_lb": &o.ClipCovLow, "clip_cov_ub": &o.ClipCovHigh,
		"kl_cov_ratio": &o.KLCovRatio, "ppo_kl_coef": &o.KLCovCoef,
	} {
		*dst = number(t, c.Params, field, *dst)
	}
	return o
}
