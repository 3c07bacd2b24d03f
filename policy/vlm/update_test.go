package vlm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
)

// evenly gives each of the marked tokens the same weight; they sum to 1.
func evenly(want []bool) []float32 {
	n := 0
	for _, w := range want {
		if w {
			n++
		}
	}
	out := make([]float32, len(want))
	for i, w := range want {
		if w {
			out[i] = 1 / float32(n)
		}
	}
	return out
}

// imitate runs one step of imitation.
func imitate(t *testing.T, m *Model, rows policy.Rows, want []bool, rate float64) policy.Stats {
	t.Helper()
	opt := policy.DefaultOptimizer()
	opt.Rate = rate
	s, err := m.Update(t.Context(), &policy.Batch{Rows: rows, Weight: evenly(want)}, policy.Objective{Imitate: true, Temperature: 1}, opt)
	require.NoError(t, err)
	require.False(t, s.Skipped)
	return s
}

// still is an optimiser that changes no weight; its first moment is the gradient.
var still = policy.Optimizer{Epsilon: 1}

// gradientsOf returns the gradients of the policy, and of a separate critic; nil
// where there is none.
func gradientsOf(t *testing.T, m *Model, b *policy.Batch, o policy.Objective) (actor, critic map[string][]float32, s policy.Stats) {
	t.Helper()
	s, err := m.Update(t.Context(), b, o, still)
	require.NoError(t, err)
	require.False(t, s.Skipped)
	if m.sets.Actor.Adam != nil {
		actor = read(t, m.sets.Actor.Adam.M)
	}
	if m.sets.Critic != nil && m.sets.Critic.Adam != nil {
		critic = read(t, m.sets.Critic.Adam.M)
	}
	return actor, critic, s
}

// playedBatch is a batch for every loss: random advantages, old log-probs and
// values near those of the model, and a reference further away.
func playedBatch(t *testing.T, m *Model) *policy.Batch {
	t.Helper()
	rows, want := fourRows(t, m)
	what := policy.ScoreRequest{LogProbs: true, Values: m.opts.Critic != NoCritic}
	s, err := m.Score(t.Context(), &rows, want, what, 1)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(9, 1))
	n := len(want)
	b := &policy.Batch{Rows: rows, Weight: evenly(want), Advantages: make([]float32, n), OldLogProbs: make([]float32, n), Reference: make([]float32, n)}
	if what.Values {
		b.ValueWeight, b.OldValues, b.Returns = evenly(want), make([]float32, n), make([]float32, n)
	}
	for i := range n {
		if !want[i] {
			continue
		}
		b.Weight[i] *= float32(r.IntN(3)) // some tokens count twice, some not at all
		b.Advantages[i] = float32(r.NormFloat64())
		b.OldLogProbs[i] = s.LogProbs[i] + float32(0.4*r.NormFloat64())
		b.Reference[i] = s.LogProbs[i] + float32(r.NormFloat64())
		if what.Values {
			b.ValueWeight[i] *= float32(r.IntN(2))
			b.OldValues[i] = s.Values[i] + float32(0.5*r.NormFloat64())
			b.Returns[i] = s.Values[i] + float32(r.NormFloat64())
		}
	}
	return b
}

func TestImitationLearnsItsRows(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{})
	rows, want := fourRows(t, m)
	first := imitate(t, m, rows, want, 1e-2)
	require.Equal(t, len(want), first.Tokens)
	last := first
	for range 30 {
		last = imitate(t, m, rows, want, 1e-2)
	}
	require.Less(t, last.PolicyLoss, first.PolicyLoss/2)
	require.Less(t, last.Entropy, first.Entropy)
}

// The gradient of a batch is the sum over its micro-batches, for any division into them
// and any choice of activations to recompute.
func TestStepsDoNotDependOnHowRowsAreBatched(t *testing.T) {
	dir := tinyFolder(t, model.Qwen25VL, nil)
	m := openTiny(t, dir, Options{Critic: SeparateCritic})
	b := playedBatch(t, m)
	o := policy.Objective{Temperature: 0.9, Policy: loss.PPO{Low: 0.2, High: 0.3, Dual: 3, Clamp: true}, EntropyCoef: 0.1, KL: "k3", KLCoef: 0.2, ValueCoef: 0.5, ValueClip: 0.2}
	actor, critic, stats := gradientsOf(t, m, b, o)
	check := func(what string, m *Model, b *policy.Batch) {
		t.Helper()
		a, c, s := gradientsOf(t, m, b, o)
		requireGradients(t, actor, a)
		requireGradients(t, critic, c)
		for name, pair := range map[string][2]float64{
			"policy loss": {stats.PolicyLoss, s.PolicyLoss}, "value loss": {stats.ValueLoss, s.ValueLoss}, "entropy": {stats.Entropy, s.Entropy},
			"KL": {stats.KL, s.KL}, "ratio": {stats.RatioMax, s.RatioMax}, "clipped": {stats.ClipFrac, s.ClipFrac},
			"norm": {stats.GradNorm, s.GradNorm}, "critic norm": {stats.CriticNorm, s.CriticNorm},
		} {
			require.NotZero(t, pair[0], name)
			require.InDelta(t, pair[0], pair[1], rowDrift*(1+math.Abs(pair[0])), "%s: %s", what, name)
		}
	}
	for _, budget := range []int{1, 24, 64} {
		m.sets.Batching.Tokens = budget
		check("micro-batches", m, b)
	}
	m.sets.Batching.HeadTokens = 3
	check("three logits at a time", m, b)
	for _, r := range []Recompute{RecomputeAttention, RecomputeBlocks} {
		check("recompute "+string(r), openTiny(t, dir, Options{Critic: SeparateCritic, Recompute: r, MicroTokens: 64}), b)
	}
	rows, place := pick(b.Rows, 2, 0, 3, 1)
	moved := &policy.Batch{Rows: rows}
	for _, c := range []struct{ to, from *[]float32 }{
		{&moved.Weight, &b.Weight}, {&moved.ValueWeight, &b.ValueWeight}, {&moved.Advantages, &b.Advantages}, {&moved.OldLogProbs, &b.OldLogProbs},
		{&moved.Reference, &b.Reference}, {&moved.Returns, &b.Returns}, {&moved.OldValues, &b.OldValues},
	} {
		for _, at := range place {
			*c.to = append(*c.to, (*c.from)[at])
		}
	}
	check("rows in another order", m, moved)
}

// Accumulate adds: batches in parts give the step of the whole, for policy and critic, and Step consumes the sum.
func TestAccumulatedPartsGiveTheStepOfTheWhole(t *testing.T) {
	dir := tinyFolder(t, model.Qwen3, nil)
	m := openTiny(t, dir, Options{Critic: SeparateCritic})
	b := playedBatch(t, m)
	o := policy.Objective{Temperature: 0.9, Policy: loss.DefaultPPO(), EntropyCoef: 0.1, KL: "k3", KLCoef: 0.2, ValueCoef: 0.5}
	actor, critic, whole := gradientsOf(t, m, b, o)
	parts := openTiny(t, dir, Options{Critic: SeparateCritic})
	for row := range b.Len() {
		part := *b
		part.Weight, part.ValueWeight = make([]float32, len(b.Tokens)), make([]float32, len(b.Tokens))
		from, to := b.Offsets[row], b.Offsets[row+1]
		copy(part.Weight[from:to], b.Weight[from:to])
		copy(part.ValueWeight[from:to], b.ValueWeight[from:to])
		stats, err := parts.Accumulate(t.Context(), &part, o)
		require.NoError(t, err)
		require.Zero(t, stats.GradNorm)
	}
	_, err := parts.Accumulate(t.Context(), b, policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 2}})
	require.ErrorIs(t, err, loss.ErrSetting, "a batch that is refused adds nothing")
	stats, err := parts.Step(t.Context(), still)
	require.NoError(t, err)
	require.InEpsilon(t, whole.GradNorm, stats.GradNorm, rowDrift)
	require.InEpsilon(t, whole.CriticNorm, stats.CriticNorm, rowDrift)
	requireGradients(t, actor, read(t, parts.sets.Actor.Adam.M))
	requireGradients(t, critic, read(t, parts.sets.Critic.Adam.M))
	before, _ := parts.dev.Live()
	stats, err = parts.Step(t.Context(), still)
	require.NoError(t, err)
	require.True(t, stats.Skipped, "there is no gradient left")
	after, _ := parts.dev.Live()
	require.Equal(t, before, after)
}

// A shared critic's step is the sum of the policy's and ValueCoef times the
// value's on the same weights.
func TestSharedCriticAddsItsGradientToThePolicys(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{Critic: SharedCritic})
	b := playedBatch(t, m)
	o := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}}
	alone, _, _ := gradientsOf(t, m, b, o)
	require.Zero(t, largest(alone["score.weight"]))
	o.ValueCoef = 1
	one, _, _ := gradientsOf(t, m, b, o)
	o.ValueCoef = 3
	three, _, s := gradientsOf(t, m, b, o)
	require.Positive(t, s.ValueLoss)
	require.Zero(t, s.CriticNorm, "it has no weights of its own")
	want := map[string][]float32{}
	for name := range alone {
		for i := range alone[name] {
			want[name] = append(want[name], alone[name][i]+3*(one[name][i]-alone[name][i]))
		}
	}
	requireGradients(t, want, three)
	require.Positive(t, largest(three["score.weight"]))
}

func TestSeparateCriticLearnsItsReturns(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{Critic: SeparateCritic})
	b := playedBatch(t, m)
	opt := policy.DefaultOptimizer()
	opt.CriticRate = 1e-2
	before := weightsOf(t, m.sets.Actor)
	o := policy.Objective{CriticOnly: true, ValueCoef: 1, Temperature: 1}
	var losses []float64
	for range 25 {
		s, err := m.Update(t.Context(), b, o, opt)
		require.NoError(t, err)
		require.Zero(t, s.GradNorm)
		losses = append(losses, s.ValueLoss)
	}
	require.Less(t, losses[24], losses[0]/4)
	require.Equal(t, before, weightsOf(t, m.sets.Actor), "training the critic alone leaves the policy bit for bit")
	require.Nil(t, m.sets.Actor.Adam)

	critic := weightsOf(t, m.sets.Critic)
	_, err := m.Update(t.Context(), b, policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}}, opt)
	require.NoError(t, err)
	require.Equal(t, critic, weightsOf(t, m.sets.Critic), "and ValueCoef 0 leaves the critic")
	require.NotEqual(t, before, weightsOf(t, m.sets.Actor))
}

// The gradient of clipped value errors is that of plain ones with the same
// derivatives by value, which package loss computes from Score's values.
func TestClippedValueLossIsThatOfPackageLoss(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{Critic: SeparateCritic})
	b := playedBatch(t, m)
	mask := learn.NonZero(len(b.Tokens), b.ValueWeight)
	s, err := m.Score(t.Context(), &b.Rows, mask, policy.ScoreRequest{Values: true}, 1)
	require.NoError(t, err)
	weights, factor, err := loss.Aggregation{Mode: loss.TokenMean}.Weights(nil, b.Offsets, mask)
	require.NoError(t, err)
	for i, w := range weights {
		b.ValueWeight[i] = float32(w * factor)
	}
	var plain loss.ValueResult
	require.NoError(t, loss.EvalValue(&plain, loss.Value{Clip: 0.3}, loss.Aggregation{Mode: loss.TokenMean},
		&loss.ValueBatch[float32]{Offsets: b.Offsets, Mask: mask, Value: s.Values, OldValue: b.OldValues, Return: b.Returns}))

	o := policy.Objective{CriticOnly: true, Temperature: 1, ValueCoef: 1, ValueClip: 0.3}
	_, clipped, stats := gradientsOf(t, m, b, o)
	require.InDelta(t, plain.Loss, stats.ValueLoss, 1e-5*plain.Loss)
	require.InDelta(t, plain.Metrics.ClipFraction, stats.ValueClip, 1e-6)
	require.Positive(t, stats.ValueClip)
	require.Less(t, stats.ValueClip, 1.0)

	for i := range mask {
		if mask[i] {
			b.Returns[i] = s.Values[i] - float32(plain.Grad[i])/b.ValueWeight[i]
		}
	}
	o.ValueClip = 0
	_, want, _ := gradientsOf(t, m, b, o)
	requireGradients(t, want, clipped)
}

func TestEntropyBonusRaisesTheEntropy(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{})
	b := playedBatch(t, m)
	clear(b.Advantages)
	opt := policy.DefaultOptimizer()
	opt.Rate = 3e-3
	var entropies []float64
	for range 10 {
		s, err := m.Update(t.Context(), b, policy.Objective{Temperature: 1, Policy: loss.PPO{Clamp: true}, EntropyCoef: 1}, opt)
		require.NoError(t, err)
		entropies = append(entropies, s.Entropy)
	}
	require.Greater(t, entropies[9], entropies[0]+0.05)
}

// Without advantage, KL and entropy there is no gradient: AdamW reduces to p − η·λ·p.
// If XLA fuses that, the last bit of a float32 may differ.
func TestWithoutSignalOnlyWeightDecayMoves(t *testing.T) {
	for _, decay := range []float64{0, 0.1} {
		m := newTiny(t, model.Qwen25VL, Options{})
		b := playedBatch(t, m)
		clear(b.Advantages)
		before := weightsOf(t, m.sets.Actor)
		opt := policy.DefaultOptimizer()
		opt.Rate, opt.WeightDecay = 0.5, decay
		s, err := m.Update(t.Context(), b, policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}}, opt)
		require.NoError(t, err)
		require.Zero(t, s.GradNorm)
		for name, after := range weightsOf(t, m.sets.Actor) {
			for i, x := range before[name] {
				require.InDelta(t, (1-0.5*decay)*float64(x), after[i], 2e-7*math.Abs(float64(x)), name)
			}
		}
	}
}

func TestSkippedStepsChangeNothing(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{Critic: SeparateCritic})
	b := playedBatch(t, m)
	o := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}, ValueCoef: 1}
	opt := policy.DefaultOptimizer()
	opt.Rate, opt.CriticRate = 1e-2, 1e-2
	_, err := m.Update(t.Context(), b, o, opt)
	require.NoError(t, err)
	state := func() []map[string][]float32 {
		var out []map[string][]float32
		for _, l := range []*learn.Learner{m.sets.Actor, m.sets.Critic} {
			out = append(out, read(t, l.Weights), read(t, l.Adam.M), read(t, l.Adam.V))
		}
		return out
	}
	before := state()
	skip := func(b *policy.Batch, opt policy.Optimizer) policy.Stats {
		t.Helper()
		s, err := m.Update(t.Context(), b, o, opt)
		require.NoError(t, err)
		require.True(t, s.Skipped)
		require.Equal(t, before, state())
		require.Equal(t, []int{1, 1}, []int{m.sets.Actor.Adam.Steps, m.sets.Critic.Adam.Steps})
		return s
	}
	limited := opt
	limited.MaxGradNorm = 1e-6
	require.Greater(t, skip(b, limited).GradNorm, 1e-6)

	huge := *b
	huge.Advantages, huge.Returns = make([]float32, len(b.Tokens)), make([]float32, len(b.Tokens))
	for i := range huge.Advantages {
		huge.Advantages[i], huge.Returns[i] = math.MaxFloat32, math.MaxFloat32
	}
	s := skip(&huge, opt)
	require.True(t, math.IsInf(s.GradNorm, 0) || math.IsNaN(s.GradNorm), "the norm is %v", s.GradNorm)
	require.True(t, math.IsInf(s.CriticNorm, 0) || math.IsNaN(s.CriticNorm), "the norm is %v", s.CriticNorm)

	noWeight := *b
	noWeight.Weight, noWeight.ValueWeight = make([]float32, len(b.Tokens)), make([]float32, len(b.Tokens))
	skip(&noWeight, opt)

	// A repeated call performs the step.
	s, err = m.Update(t.Context(), b, o, opt)
	require.NoError(t, err)
	require.False(t, s.Skipped)
	require.NotEqual(t, before, state())
}

func TestGradientsAreClippedByTheirGlobalNorm(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{})
	b := playedBatch(t, m)
	o := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}}
	free, _, s := gradientsOf(t, m, b, o)
	clip := still
	clip.GradClip = s.GradNorm / 4
	after, err := m.Update(t.Context(), b, o, clip)
	require.NoError(t, err)
	require.InEpsilon(t, s.GradNorm, after.GradNorm, 1e-6, "it is reported before clipping")
	var squares float64
	for name, x := range read(t, m.sets.Actor.Adam.M) {
		squares += math.Pow(length(x), 2)
		for i := range x {
			require.InDelta(t, float64(free[name][i])/4, x[i], gradLimit*largest(x), name)
		}
	}
	require.InEpsilon(t, clip.GradClip, math.Sqrt(squares), 1e-4)
}
