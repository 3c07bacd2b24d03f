package policy_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
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
// rows, against loss.Eval with the aggregation that gives those weights.
func TestEvalIsTheLossOfPackageLossWithTheBatchesWeights(t *testing.T) {
	for _, p := range []loss.Policy{nil, loss.LegacyPPO(), loss.TurnGSPO{Low: 0.1, High: 0.1},
		loss.GMPO{Low: 0.4, High: 0.4}} {
		b, logProbs := twoRows()
		o := policy.Objective{Policy: p, KL: loss.K2, KLCoef: 0.5}
		mask := []bool{false, true, true, false, true}
		mode, err := loss.ModeOf(o.PolicyLoss())
		require.NoError(t, err)
		weights, err := loss.Aggregation{Mode: mode}.Weights(nil, b.Offsets, mask)
		require.NoError(t, err)
		for i, w := range weights {
			b.Weight[i] = float32(w)
		}
		b.AuxWeight = nil
		var want loss.Result
		require.NoError(t, loss.Eval(&want, o.PolicyLoss(), loss.Aggregation{Mode: mode}, &loss.Batch[float32]{
			Offsets: b.Offsets, Mask: mask, LogProb: logProbs, OldLogProb: b.OldLogProbs, Advantage: b.Advantages,
			Weight: b.RolloutWeight, Turn: b.Turn,
		}))
		kl := 0.0
		for i, w := range weights {
			if w != 0 {
				x, slope, err := o.KL.Of(float64(logProbs[i]), float64(b.Reference[i]))
				require.NoError(t, err)
				kl += w * x
				want.Grad[i] += o.KLCoef * w * slope
			}
		}
		got, err := o.Eval(b, &policy.Scores{LogProbs: logProbs})
		require.NoError(t, err)
		// Weights are float32 here.
		require.InDelta(t, want.Loss, got.Loss, 1e-7, "%T", p)
		require.InDelta(t, kl, got.KL, 1e-7, "%T", p)
		require.InDeltaSlice(t, want.Grad, got.Slopes.LogProbs, 1e-7, "%T", p)
		require.Equal(t, want.Metrics, got.Metrics, "%T", p)
	}
}

func TestEvalUsesTheWeightsOfTheKLTerm(t *testing.T) {
	b, logProbs := twoRows()
	b.Advantages = make([]float32, 5)
	got, err := (&policy.Objective{KL: loss.K1, KLCoef: 2}).Eval(b, &policy.Scores{LogProbs: logProbs})
	require.NoError(t, err)
	require.InDelta(t, 0.5*1+0.25*-0.4+0.25*-0.4, got.KL, 1e-6)
	require.Equal(t, []float64{0, 1, 0.5, 0, 0.5}, got.Slopes.LogProbs)
}

func TestEvalOfImitationIsTheWeightedLogProb(t *testing.T) {
	b, logProbs := twoRows()
	got, err := (&policy.Objective{Imitate: true}).Eval(b, &policy.Scores{LogProbs: logProbs})
	require.NoError(t, err)
	require.InDelta(t, 0.25*0.5+0.25*1.9+0.5*1.4, got.Loss, 1e-6)
	require.Equal(t, []float64{0, -0.25, -0.25, 0, -0.5}, got.Slopes.LogProbs)
}

// scoredRows are rows with the columns and scores of all terms.
func scoredRows() (*policy.Batch, *policy.Scores) {
	b, logProbs := twoRows()
	b.ValueWeight, b.Returns, b.OldValues = []float32{0, 0.5, 0.25, 0, 0.25}, []float32{0, 1, 3, 0, 3},
		[]float32{0, 0.5, 0.5, 0, 0.25}
	b.Teacher = []float32{0, 0, -1, -2, -0.5, -3, 0, 0, -0.7, -0.8}
	return b, &policy.Scores{
		LogProbs: logProbs, Entropy: []float32{9, 1, 2, 9, 0.5}, Values: []float32{9, 0.75, 1.5, 9, 0.25},
		ChosenLogProbs: []float32{0, 0, -0.5, -1, -1.9, -0.4, 0, 0, -1.4, -0.9},
	}
}

// objectives are one for each loss of package loss, with all other terms; what it has no derivative at is not near.
func objectives(t *testing.T) map[string]policy.Objective {
	out := map[string]policy.Objective{"imitation": {Imitate: true},
		"critic": {CriticOnly: true, ValueCoef: 0.5, ValueClip: 0.3}}
	options := loss.DefaultOptions()
	options.DualClip, options.ClipCov.Ratio, options.ClipCov.CovLow = 3, 0.5, -5
	for _, name := range loss.Builtin().Names() {
		p, err := loss.Builtin().New(name, options)
		require.NoError(t, err)
		out[name] = policy.Objective{Policy: p, KL: loss.K3, KLCoef: 0.5, EntropyCoef: 0.1, ValueCoef: 0.5, ValueClip: 0.3}
	}
	return out
}

// value is the number that an objective minimises.
func value(t *testing.T, o policy.Objective, b *policy.Batch, s *policy.Scores) float64 {
	e, err := o.Eval(b, s)
	require.NoError(t, err)
	return e.Loss + o.KLCoef*e.KL - o.EntropyCoef*e.Entropy + o.ValueCoef*e.Value
}

// TestSlopesAreFiniteDifferences, by every score of every token. Losses whose ratio has the value of a row or turn,
// but the derivative of a token's own log-prob, and those with a weight that has no gradient, are compared where
// they are defined: in package loss.
func TestSlopesAreFiniteDifferences(t *testing.T) {
	const step = 1.0 / 256
	for name, o := range objectives(t) {
		switch o.Policy.(type) {
		case loss.GSPO, loss.TurnGSPO, loss.TurnPPO, loss.GMPO, loss.CISPO, loss.ClipCov, loss.KLCov,
			loss.LUSPO, loss.DPPO, loss.VESPO, loss.Distill:
			continue
		}
		b, s := scoredRows()
		e, err := o.Eval(b, s)
		require.NoError(t, err)
		for what, x := range map[string]struct {
			score []float32
			slope []float64
		}{"log-prob": {s.LogProbs, e.Slopes.LogProbs}, "entropy": {s.Entropy, e.Slopes.Entropy},
			"value": {s.Values, e.Slopes.Values}} {
			for i, old := range x.score {
				x.score[i] = old + step
				up := value(t, o, b, s)
				x.score[i] = old - step
				down := value(t, o, b, s)
				x.score[i] = old
				slope := 0.0
				if x.slope != nil {
					slope = x.slope[i]
				}
				require.InDelta(t, (up-down)/(2*step), slope, 1e-4, "%s: %s of token %d", name, what, i)
			}
		}
	}
}

// TestALocalObjectiveIsTheSumOfItsParts: in any parts, with the same slopes bit for bit.
func TestALocalObjectiveIsTheSumOfItsParts(t *testing.T) {
	local := 0
	for name, o := range objectives(t) {
		if !o.Local() {
			continue
		}
		local++
		b, s := scoredRows()
		whole, err := o.Eval(b, s)
		require.NoError(t, err)
		for i := range b.Tokens {
			one := func(x []float32) []float32 { return x[i : i+1] }
			part, err := o.Eval(&policy.Batch{
				Rows: policy.Rows{Offsets: []int{0, 1}, Tokens: b.Tokens[i : i+1]}, Weight: one(b.Weight),
				AuxWeight:   one(b.AuxWeight),
				ValueWeight: one(b.ValueWeight), OldLogProbs: one(b.OldLogProbs), Reference: one(b.Reference),
				Advantages:    one(b.Advantages),
				RolloutWeight: one(b.RolloutWeight), Returns: one(b.Returns), OldValues: one(b.OldValues),
				Teacher: b.Teacher[2*i:][:2],
			}, &policy.Scores{LogProbs: one(s.LogProbs), Entropy: one(s.Entropy), Values: one(s.Values),
				ChosenLogProbs: s.ChosenLogProbs[2*i:][:2]})
			require.NoError(t, err)
			if n := len(whole.Slopes.Chosen); n > 0 {
				require.Equal(t, whole.Slopes.Chosen[2*i:][:2], part.Slopes.Chosen, name)
			}
			for _, x := range [][2][]float64{{whole.Slopes.LogProbs, part.Slopes.LogProbs},
				{whole.Slopes.Entropy, part.Slopes.Entropy}, {whole.Slopes.Values, part.Slopes.Values}} {
				if x[0] != nil {
					require.Equal(t, x[0][i], x[1][0], name)
				}
			}
		}
	}
	require.Equal(t, 17, local, "vanilla and ppo, cispo, sapo, reinforce and gpg, imitation, the critic alone, "+
		"dppo_tv, dppo_kl, dppo_prime, dppo_skyrl, ipo, dro, opd, ref_kl, sdft")
}

// TestTermsAreLeftOutWithoutTheirScores, and what is not read may hold anything.
func TestTermsAreLeftOutWithoutTheirScores(t *testing.T) {
	b, s := scoredRows()
	b.Teacher, s.ChosenLogProbs = nil, nil
	o := objectives(t)["ppo"]
	all, err := o.Eval(b, s)
	require.NoError(t, err)
	actor, err := o.Eval(b, &policy.Scores{LogProbs: s.LogProbs, Entropy: s.Entropy})
	require.NoError(t, err)
	require.Nil(t, actor.Slopes.Values)
	require.Equal(t, all.Slopes.LogProbs, actor.Slopes.LogProbs)
	critic, err := o.Eval(b, &policy.Scores{Values: s.Values})
	require.NoError(t, err)
	require.Nil(t, critic.Slopes.LogProbs)
	require.Equal(t, all.Slopes.Values, critic.Slopes.Values)
	_, err = o.Eval(b, &policy.Scores{LogProbs: s.LogProbs})
	require.ErrorIs(t, err, loss.ErrMissing)
	for _, x := range [][]float32{s.LogProbs, s.Entropy, s.Values} {
		x[1] = float32(math.NaN())
		_, err := o.Eval(b, s)
		require.ErrorIs(t, err, loss.ErrNotFinite)
		x[1] = 0
	}
	var stats policy.Stats
	all.Report(&stats)
	require.InDelta(t, (0.5*1+0.25*2+0.25*0.5)/1, stats.Entropy, 1e-6)
	require.InDelta(t, all.Value, stats.ValueLoss, 0)
	require.InDelta(t, 0.25, stats.ValueClip, 1e-6, "the value of the third token is clipped")
}

func TestEvalRefusesColumnsOfOtherLengths(t *testing.T) {
	for name, change := range map[string]func(*policy.Batch){
		"Weight":       func(b *policy.Batch) { b.Weight = nil },
		"AuxWeight":    func(b *policy.Batch) { b.AuxWeight = b.AuxWeight[1:] },
		"Reference":    func(b *policy.Batch) { b.Reference = nil },
		"ValueWeight":  func(b *policy.Batch) { b.ValueWeight = nil },
		"Returns":      func(b *policy.Batch) { b.Returns = b.Returns[1:] },
		"OldValues":    func(b *policy.Batch) { b.OldValues = nil },
		"Turn":         func(b *policy.Batch) { b.Turn = b.Turn[1:] },
		"old_log_prob": func(b *policy.Batch) { b.OldLogProbs = b.OldLogProbs[1:] },
		"advantage":    func(b *policy.Batch) { b.Advantages = b.Advantages[1:] },
		"weight has 4": func(b *policy.Batch) { b.RolloutWeight = b.RolloutWeight[1:] },
	} {
		b, s := scoredRows()
		change(b)
		o := policy.Objective{KL: loss.K1, EntropyCoef: 1, ValueCoef: 1, ValueClip: 1}
		_, err := o.Eval(b, s)
		testkit.Error(t, err, loss.ErrLength, name)
	}
	b, s := scoredRows()
	nan := float32(math.NaN())
	b.OldValues = slices.Repeat([]float32{nan}, len(b.Tokens))
	_, err := (&policy.Objective{ValueCoef: 1, ValueClip: 1}).Eval(b, s)
	require.ErrorIs(t, err, loss.ErrNotFinite, "a clip does not hide NaN")
	_, err = (&policy.Objective{}).Eval(nil, s)
	require.ErrorIs(t, err, loss.ErrMissing)
	_, err = (&policy.Objective{}).Eval(b, nil)
	require.ErrorIs(t, err, loss.ErrMissing)
}

func TestCheckNamesTheBadSetting(t *testing.T) {
	require.NoError(t, (&policy.Objective{}).Check())
	require.ErrorIs(t, (&policy.Objective{Policy: loss.PPO{Low: 2}}).Check(), loss.ErrSetting)
	require.ErrorIs(t, (&policy.Objective{KL: "k7"}).Check(), loss.ErrUnknown)
	nan, inf := math.NaN(), math.Inf(1)
	for says, o := range map[string]policy.Objective{
		"EntropyCoef is NaN":   {EntropyCoef: nan},
		"KLCoef is -Inf":       {KLCoef: -inf},
		"ValueCoef is NaN":     {ValueCoef: nan},
		"ValueClip is +Inf":    {ValueCoef: 1, ValueClip: inf},
		"ValueClip is -0.5":    {ValueCoef: 1, ValueClip: -0.5},
		"KLCoef is +Inf, must": {KL: loss.K1, KLCoef: inf},
	} {
		b, s := scoredRows()
		_, err := o.Eval(b, s)
		for _, err := range []error{o.Check(), err} {
			testkit.Error(t, err, loss.ErrSetting, says)
		}
	}
}

// TestOldValuesAreReadForTheClipOnly: without it, they may have any length.
func TestOldValuesAreReadForTheClipOnly(t *testing.T) {
	b, s := scoredRows()
	o := policy.Objective{ValueCoef: 1}
	want, err := o.Eval(b, s)
	require.NoError(t, err)
	b.OldValues = b.OldValues[1:]
	got, err := o.Eval(b, s)
	require.NoError(t, err)
	require.Equal(t, want, got)
}
