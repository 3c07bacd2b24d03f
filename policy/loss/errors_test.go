package loss

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

func valid() *Batch[float32] {
	return &Batch[float32]{
		Offsets: []int{0, 2, 3}, Mask: []bool{true, false, true},
		LogProb: []float32{-1, 0, -2}, OldLogProb: []float32{-1.1, 0, -1.9}, Advantage: []float32{1, 0, -1},
		Turn: []int32{0, -1, 2},
	}
}

func TestBadBatchesAreNamedByColumnRowAndPosition(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name  string
		spoil func(*Batch[float32])
		want  error
		says  string
	}{
		{"NaN", func(b *Batch[float32]) { b.LogProb[2] = nan }, ErrNotFinite, "log_prob: row 1, position 0: NaN"},
		{"infinity", func(b *Batch[float32]) { b.Advantage[0] = float32(math.Inf(-1)) }, ErrNotFinite,
			"advantage: row 0, position 0: -Inf"},
		{"short column", func(b *Batch[float32]) { b.OldLogProb = b.OldLogProb[:2] }, ErrLength,
			"old_log_prob has 2 entries for 3 tokens"},
		{"missing column", func(b *Batch[float32]) { b.Advantage = nil }, ErrMissing, "advantage"},
		{"mask", func(b *Batch[float32]) { b.Mask = b.Mask[:1] }, ErrLength, "mask has 1 entries for 3 tokens"},
		{"no offsets", func(b *Batch[float32]) { b.Offsets = nil }, ErrLength, "offsets"},
		{"first offset", func(b *Batch[float32]) { b.Offsets = []int{1, 3} }, ErrLength, "offsets[0] = 1"},
		{"falling offsets", func(b *Batch[float32]) { b.Offsets = []int{0, 3, 2} }, ErrLength, "offsets[2] = 2 after 3"},
		{"last offset", func(b *Batch[float32]) { b.Offsets = []int{0, 2} }, ErrLength,
			"offsets end at 2, but there are 3 tokens"},
		{"weight", func(b *Batch[float32]) { b.Weight = []float32{1, 1, nan} }, ErrNotFinite, "weight: row 1, position 0"},
		{"compared NaN", func(b *Batch[float32]) { b.Chosen, b.Teacher = []float32{nan, 0, 0}, make([]float32, 3) },
			ErrNotFinite, "chosen: row 0, position 0: NaN"},
		{"compared tokens of one side", func(b *Batch[float32]) { b.Chosen = make([]float32, 3) }, ErrLength,
			"3 chosen log-probs and 0 of the teacher for 3 tokens"},
		{"one compared token", func(b *Batch[float32]) { b.Chosen, b.Teacher = make([]float32, 1), make([]float32, 1) },
			ErrLength, "1 chosen log-probs and 1 of the teacher for 3 tokens"},
		{"compared tokens of nothing", func(b *Batch[float32]) {
			*b = Batch[float32]{Offsets: []int{0}, Chosen: make([]float32, 1), Teacher: make([]float32, 1)}
		}, ErrLength, "for 0 tokens"},
		{"overflow", func(b *Batch[float32]) { b.LogProb[2] = 900 }, ErrNotFinite, "loss of a token: row 1, position 0"},
	} {
		b := valid()
		c.spoil(b)
		var r Result
		err := Eval(&r, LegacyPPO(), Aggregation{}, b)
		testkit.Error(t, err, c.want, c.says)
	}
}

// shrinking is a custom loss that leaves one of its columns shorter than the batch.
type shrinking func(*Terms)

func (s shrinking) Terms(t *Terms, _ *Batch[float64]) error {
	s(t)
	return nil
}

func TestLossesMustKeepTheLengthsOfTheirColumns(t *testing.T) {
	for says, p := range map[string]shrinking{
		"0 losses":                             func(t *Terms) { t.Loss = t.Loss[:0] },
		"2 slopes":                             func(t *Terms) { t.Slope = t.Slope[:2] },
		"1 log-ratios":                         func(t *Terms) { t.LogRatio = t.LogRatio[:1] },
		"5 derivatives of compared tokens for": func(t *Terms) { t.Chosen = make([]float64, 5) },
	} {
		var r Result
		err := Eval(&r, p, Aggregation{}, valid())
		testkit.Error(t, err, ErrLength, says)
		err = EvalWeighted(&r, p, make([]float32, 3), valid())
		require.ErrorIs(t, err, ErrLength, says)
		for _, outer := range []Policy{OffPolicyMask{Policy: p}, Distill{KL: K1, Policy: p}} {
			b := valid()
			b.Ref = make([]float32, 3)
			require.ErrorIs(t, Eval(&r, outer, Aggregation{}, b), ErrLength, "%T: %s", outer, says)
		}
	}
}

func TestBatchesThatAreNilAreRefused(t *testing.T) {
	var r Result
	require.ErrorIs(t, Eval[float32](&r, LegacyPPO(), Aggregation{}, nil), ErrSetting)
	require.ErrorIs(t, EvalWeighted[float32](&r, LegacyPPO(), nil, nil), ErrSetting)
	require.ErrorIs(t, Correct[float32](&Corrected{}, DefaultCorrection(), nil), ErrSetting)
	require.ErrorIs(t, Eval(nil, LegacyPPO(), Aggregation{}, valid()), ErrSetting)
	require.ErrorIs(t, EvalWeighted(nil, LegacyPPO(), make([]float32, 3), valid()), ErrSetting)
	require.ErrorIs(t, Correct(nil, DefaultCorrection(), &CorrectionBatch[float32]{}), ErrSetting)
}

func TestOverflowsAreNamed(t *testing.T) {
	two := func(logProb, adv float64) *Batch[float64] {
		return &Batch[float64]{Offsets: []int{0, 2}, Mask: []bool{true, true}, LogProb: []float64{logProb, logProb},
			OldLogProb: []float64{logProb, logProb}, Advantage: []float64{adv, adv}}
	}
	far, compared := two(1e308, 1), two(-1, 0)
	far.OldLogProb[0] = -1e308
	compared.Chosen, compared.Teacher = []float64{-0.7, -0.7, -0.7, -0.7}, []float64{0, -1e308, 0, 0}
	over := Distill{Over: Divergence{Form: Tail, Choice: Choice{ByStudent, 2}, Alpha: 1}}
	for _, c := range []struct {
		p      Policy
		weight float64
		b      *Batch[float64]
		says   string
	}{
		{Reinforce{}, 1, far, "log_prob - old_log_prob: row 0, position 0"},
		{Reinforce{}, 1e300, two(-1, 1e300), "gradient of a token: row 0, position 0"},
		{over, 100, compared, "gradient of a compared token: row 0, position 0"},
		{Reinforce{}, 1, two(-1e308, 1), "sum over the batch"},
	} {
		var r Result
		err := EvalWeighted(&r, c.p, []float64{c.weight, c.weight}, c.b)
		testkit.Error(t, err, ErrNotFinite, c.says)
	}
	var r Result
	require.ErrorIs(t, EvalWeighted(&r, Reinforce{}, []float64{1}, two(-1, 1)), ErrLength)
	far.Offsets = nil
	require.ErrorIs(t, EvalWeighted(&r, Reinforce{}, []float64{1, 1}, far), ErrLength)
}

func TestTurnLossesRefuseTurnIdsTheyCannotUse(t *testing.T) {
	for name, c := range map[string]struct {
		turn []int32
		want error
	}{
		"absent":     {nil, ErrMissing},
		"short":      {[]int32{0}, ErrLength},
		"negative":   {[]int32{-1, -1, 2}, ErrTurn},
		"decreasing": {[]int32{3, 2, 1}, ErrTurn},
	} {
		b := &Batch[float64]{
			Offsets: []int{0, 3}, Mask: []bool{true, true, true},
			LogProb: make([]float64, 3), OldLogProb: make([]float64, 3), Advantage: make([]float64, 3), Turn: c.turn,
		}
		var r Result
		require.ErrorIs(t, Eval(&r, TurnGSPO{0.2, 0.2}, Aggregation{}, b), c.want, name)
	}
	require.ErrorIs(t, CheckTurns([]int{1}, nil, nil), ErrLength)
	require.ErrorIs(t, CheckTurns([]int{0, 1}, []bool{true}, nil), ErrMissing)
	err := CheckTurns([]int{0, 1, 3}, []bool{true, true, true}, []int32{0, 1, 0})
	require.ErrorContains(t, err, "row 1, position 1: id 0, want 1 or more")
}

func TestSettingsOutOfRangeAreRefused(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, p := range []Policy{
		PPO{Low: -0.1}, PPO{Low: 1.1}, PPO{High: nan}, PPO{High: inf}, PPO{Low: 0.2, High: 0.2, Dual: 1}, PPO{Dual: inf},
		GSPO{Low: 2}, TurnGSPO{Low: -1}, TurnPPO{High: -1}, CISPO{Low: nan},
		SAPO{}, SAPO{TauPos: 1}, SAPO{1, inf}, GMPO{Low: -1}, GMPO{High: inf},
		ClipCov{}, ClipCov{Ratio: 0.1, CovLow: 2, CovHigh: 1}, ClipCov{Ratio: 1.1, CovHigh: 1}, KLCov{},
		KLCov{Ratio: 0.1, Coef: -1},
		DPPO{Low: -1}, DPPO{High: inf}, DPPO{Cap: 1}, PrimeDPPO{KLTau: -1}, PrimeDPPO{AdvTau: nan}, PrimeDPPO{Low: -1},
		PrimeDPPO{High: -1},
		DRO{}, DRO{inf}, VESPO{KPos: -1}, VESPO{LambdaPos: nan}, VESPO{KNeg: inf}, VESPO{LambdaNeg: -1}, LUSPO{Delta: -1},
		LUSPO{Low: 2}, LUSPO{KL: K3, KLCoef: -1},
		ClipCov{Low: -1, Ratio: 0.1, CovHigh: 1}, ClipCov{Ratio: 0.1, CovLow: 1, CovHigh: 1}, DPPO{Cap: 3, Surrogate: true},
		M2PO{Threshold: -1}, M2PO{PPO: PPO{Low: -1}}, OffPolicyMask{}, OffPolicyMask{Policy: Reinforce{}, Delta: -1},
		OffPolicyMask{Policy: PPO{Low: -1}}, Distill{KL: K1, Policy: PPO{Low: -1}},
		Taught{Policy: PPO{Low: -1}, Distill: Distill{KL: K1}},
		Taught{Policy: Reinforce{}, Distill: Distill{KL: K1, Clamp: -1}},
		nil,
	} {
		var r Result
		b := randomBatch(1)
		require.ErrorIs(t, Eval(&r, p, Aggregation{}, b), ErrSetting, "%+v", p)
		require.ErrorIs(t, EvalWeighted(&r, p, make([]float64, len(b.Mask)), b), ErrSetting, "%+v", p)
		_, err := ModeOf(p)
		require.ErrorIs(t, err, ErrSetting, "%+v", p)
	}
	b := randomBatch(1)
	b.Weight[slices.Index(b.Mask, true)] = -1
	for _, p := range []Policy{GMPO{Low: 0.4, High: 0.4}, DefaultVESPO()} {
		var r Result
		require.ErrorIs(t, Eval(&r, p, Aggregation{}, b), ErrSetting, "a negative weight has no geometric mean: %T", p)
	}
	b = one(0, 1)
	for _, c := range []struct {
		p    Policy
		want error
	}{{LUSPO{KL: K3}, ErrMissing}, {Distill{KL: K2}, ErrMissing}, {LUSPO{KL: "x"}, ErrUnknown}, {GMPO{}, nil}} {
		var r Result
		require.ErrorIs(t, Eval(&r, c.p, Aggregation{}, b), c.want, "%+v", c.p)
	}
	b.Advantage = nil
	require.ErrorIs(t, Eval(new(Result), Reinforce{}, Aggregation{}, b), ErrMissing)
}

func TestAggregationsThatContradictThemselvesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		a    Aggregation
		want error
	}{
		"unknown":    {Aggregation{Mode: "token-total"}, ErrUnknown},
		"no width":   {Aggregation{Mode: SeqMeanTokenSumNorm}, ErrSetting},
		"no end":     {Aggregation{Mode: SeqMeanTokenSumNorm, Width: math.Inf(1)}, ErrSetting},
		"no prompts": {Aggregation{Mode: PromptMean}, ErrLength},
	} {
		var r Result
		require.ErrorIs(t, Eval(&r, LegacyPPO(), c.a, randomBatch(1)), c.want, name)
	}
	var r Result
	err := Eval(&r, LegacyPPO(), Aggregation{Mode: "tokenmean"}, randomBatch(1))
	require.ErrorContains(t, err, `did you mean "token-mean"?`)
	_, err = Aggregation{}.Weights(nil, []int{1}, nil)
	require.ErrorIs(t, err, ErrLength)
}
