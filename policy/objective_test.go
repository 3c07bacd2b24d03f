package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
)

// twoRows is a batch of two rows, whose first tokens do not count.
func twoRows() (*policy.Batch, []float32) {
	return &policy.Batch{
		Rows:   policy.Rows{Offsets: []int{0, 3, 5}, Tokens: []int32{1, 2, 3, 4, 5}},
		Weight: []float32{0, 0.25, 0.25, 0, 0.5}, AuxWeight: []float32{0, 0.5, 0.25, 0, 0.25},
		OldLogProbs: []float32{0, -1, -2, 0, -1.5}, Reference: []float32{0, -1.5, -1.5, 0, -1},
		Advantages: []float32{0, 1, -1, 0, 2}, RolloutWeight: []float32{1, 0.5, 1, 1, 2}, Turn: []int32{0, 0, 1, 0, 0},
	}, []float32{0, -0.5, -1.9, 0, -1.4}
}

// TestEvalIsTheLossOfPackageLossWithTheBatchesWeights: for losses of tokens, turns and
// rows, against loss.EvalActor with the aggregation that gives those weights.
func TestEvalIsTheLossOfPackageLossWithTheBatchesWeights(t *testing.T) {
	for _, p := range []loss.Policy{nil, loss.LegacyPPO(), loss.TurnGSPO{Low: 0.1, High: 0.1}, loss.GMPO{Low: 0.4, High: 0.4}} {
		b, logProbs := twoRows()
		o := policy.Objective{Policy: p, KL: loss.K2, KLCoef: 0.5}
		mask := []bool{false, true, true, false, true}
		mode, err := loss.ModeOf(o.PolicyLoss())
		require.NoError(t, err)
		weights, _, err := loss.Aggregation{Mode: mode}.Weights(nil, b.Offsets, mask)
		require.NoError(t, err)
		for i, w := range weights {
			b.Weight[i] = float32(w)
		}
		b.AuxWeight = nil
		actor := loss.Actor{Policy: o.PolicyLoss(), KL: o.KL, KLCoef: o.KLCoef, Aggregation: loss.Aggregation{Mode: mode}}
		var want loss.ActorResult
		require.NoError(t, loss.EvalActor(&want, actor, &loss.Batch[float32]{
			Offsets: b.Offsets, Mask: mask, LogProb: logProbs, OldLogProb: b.OldLogProbs, Advantage: b.Advantages,
			Weight: b.RolloutWeight, Ref: b.Reference, Turn: b.Turn,
		}))
		got, err := o.Eval(b, logProbs)
		require.NoError(t, err)
		// Weights are float32 here.
		require.InDelta(t, want.Policy, got.Loss, 1e-7, "%T", p)
		require.InDelta(t, want.KL, got.KL, 1e-7, "%T", p)
		require.InDeltaSlice(t, want.GradLogProb, got.Slope, 1e-7, "%T", p)
		require.Equal(t, want.Metrics, got.Metrics, "%T", p)
	}
}

func TestEvalUsesTheWeightsOfTheKLTerm(t *testing.T) {
	b, logProbs := twoRows()
	b.Advantages = make([]float32, 5)
	got, err := (&policy.Objective{KL: loss.K1, KLCoef: 2}).Eval(b, logProbs)
	require.NoError(t, err)
	require.InDelta(t, 0.5*1+0.25*-0.4+0.25*-0.4, got.KL, 1e-6)
	require.Equal(t, []float64{0, 1, 0.5, 0, 0.5}, got.Slope)
}

func TestEvalOfImitationIsTheWeightedLogProb(t *testing.T) {
	b, logProbs := twoRows()
	got, err := (&policy.Objective{Imitate: true}).Eval(b, logProbs)
	require.NoError(t, err)
	require.InDelta(t, 0.25*0.5+0.25*1.9+0.5*1.4, got.Loss, 1e-6)
	require.Equal(t, []float64{0, -0.25, -0.25, 0, -0.5}, got.Slope)
}

func TestEvalRefusesColumnsOfOtherLengths(t *testing.T) {
	for name, change := range map[string]func(*policy.Batch){
		"Weight":       func(b *policy.Batch) { b.Weight = nil },
		"AuxWeight":    func(b *policy.Batch) { b.AuxWeight = b.AuxWeight[1:] },
		"Reference":    func(b *policy.Batch) { b.Reference = nil },
		"Turn":         func(b *policy.Batch) { b.Turn = b.Turn[1:] },
		"old_log_prob": func(b *policy.Batch) { b.OldLogProbs = b.OldLogProbs[1:] },
		"advantage":    func(b *policy.Batch) { b.Advantages = b.Advantages[1:] },
		"weight has 4": func(b *policy.Batch) { b.RolloutWeight = b.RolloutWeight[1:] },
	} {
		b, logProbs := twoRows()
		change(b)
		_, err := (&policy.Objective{KL: loss.K1}).Eval(b, logProbs)
		require.ErrorIs(t, err, loss.ErrLength, name)
		require.ErrorContains(t, err, name)
	}
}

func TestCheckNamesTheBadSetting(t *testing.T) {
	require.NoError(t, (&policy.Objective{}).Check())
	require.ErrorIs(t, (&policy.Objective{Policy: loss.PPO{Low: 2}}).Check(), loss.ErrSetting)
	require.ErrorIs(t, (&policy.Objective{KL: "k7"}).Check(), loss.ErrUnknown)
}
