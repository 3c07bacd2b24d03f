package learn_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// The gradient of a batch is the sum over its micro-batches, for any division into them
// and any choice of activations to recompute.
func TestStepsDoNotDependOnHowRowsAreBatched(t *testing.T) {
	dir := Folder(t, model.Qwen25VL, nil)
	m := Open(t, dir, Options{Critic: learn.SeparateCritic})
	b := playedBatch(t, m)
	o := policy.Objective{Temperature: 0.9, Policy: loss.PPO{Low: 0.2, High: 0.3, Dual: 3, Clamp: true}, EntropyCoef: 0.1,
		KL: "k3", KLCoef: 0.2, ValueCoef: 0.5, ValueClip: 0.2}
	actor, critic, stats := gradientsOf(t, m, b, o)
	check := func(what string, m *Model, b *policy.Batch) {
		t.Helper()
		a, c, s := gradientsOf(t, m, b, o)
		requireGradients(t, actor, a)
		requireGradients(t, critic, c)
		for name, pair := range map[string][2]float64{
			"policy loss": {stats.PolicyLoss, s.PolicyLoss}, "value loss": {stats.ValueLoss, s.ValueLoss},
			"entropy": {stats.Entropy, s.Entropy},
			"KL":      {stats.KL, s.KL}, "ratio": {stats.RatioMax, s.RatioMax}, "clipped": {stats.ClipFrac, s.ClipFrac},
			"norm": {stats.GradNorm, s.GradNorm}, "critic norm": {stats.CriticNorm, s.CriticNorm},
		} {
			require.NotZero(t, pair[0], name)
			require.InDelta(t, pair[0], pair[1], Drift*(1+math.Abs(pair[0])), "%s: %s", what, name)
		}
	}
	for _, budget := range []int{1, 24, 64} {
		m.Sets.Batching.Tokens = budget
		check("micro-batches", m, b)
	}
	m.Sets.Batching.HeadTokens = 3
	check("three logits at a time", m, b)
	for _, keep := range []vlm.Recompute{vlm.RecomputeAttention, vlm.RecomputeBlocks} {
		check(fmt.Sprint("keep mode ", keep), Open(t, dir, Options{Critic: learn.SeparateCritic, Recompute: keep,
			MicroTokens: 64}), b)
	}
	rows, place := pick(b.Rows, 2, 0, 3, 1)
	moved := &policy.Batch{Rows: rows}
	for _, c := range []struct{ to, from *[]float32 }{
		{&moved.Weight, &b.Weight}, {&moved.ValueWeight, &b.ValueWeight}, {&moved.Advantages, &b.Advantages},
		{&moved.OldLogProbs, &b.OldLogProbs},
		{&moved.Reference, &b.Reference}, {&moved.Returns, &b.Returns}, {&moved.OldValues, &b.OldValues},
	} {
		for _, at := range place {
			*c.to = append(*c.to, (*c.from)[at])
		}
	}
	check("rows in another order", m, moved)
}

// Activations that are computed again give the gradients of those that are kept, also of layers with states and pictures.
func TestRecomputingChangesNoGradient(t *testing.T) {
	dir := Folder(t, model.Qwen35, nil)
	o := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}}
	m := Open(t, dir, Options{})
	b := playedBatch(t, m)
	want, _, _ := gradientsOf(t, m, b, o)
	for _, keep := range []vlm.Recompute{vlm.RecomputeAttention, vlm.RecomputeBlocks} {
		got, _, _ := gradientsOf(t, Open(t, dir, Options{Recompute: keep}), b, o)
		requireGradients(t, want, got)
	}
}

// Accumulate adds: batches in parts give the step of the whole, for policy and critic, and Step consumes the sum.
func TestAccumulatedPartsGiveTheStepOfTheWhole(t *testing.T) {
	dir := Folder(t, model.Qwen3, nil)
	m := Open(t, dir, Options{Critic: learn.SeparateCritic})
	b := playedBatch(t, m)
	o := policy.Objective{Temperature: 0.9, Policy: loss.DefaultPPO(), EntropyCoef: 0.1, KL: "k3", KLCoef: 0.2,
		ValueCoef: 0.5}
	actor, critic, whole := gradientsOf(t, m, b, o)
	parts := Open(t, dir, Options{Critic: learn.SeparateCritic})
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
	require.InEpsilon(t, whole.GradNorm, stats.GradNorm, Drift)
	require.InEpsilon(t, whole.CriticNorm, stats.CriticNorm, Drift)
	requireGradients(t, actor, Read(t, parts.Sets.Actor.Adam.M))
	requireGradients(t, critic, Read(t, parts.Sets.Critic.Adam.M))
	before, _ := parts.Dev.Live()
	stats, err = parts.Step(t.Context(), still)
	require.NoError(t, err)
	require.True(t, stats.Skipped, "there is no gradient left")
	after, _ := parts.Dev.Live()
	require.Equal(t, before, after)
	_, err = parts.Accumulate(t.Context(), b, o)
	require.NoError(t, err)
	require.NoError(t, parts.Restore(t.Context(), parts.Saved(t)))
	stats, err = parts.Step(t.Context(), still)
	require.NoError(t, err)
	require.True(t, stats.Skipped, "gradients of the weights before are not applied to restored ones")
}

// A shared critic's step is the sum of the policy's and ValueCoef times the
// value's on the same weights.
func TestSharedCriticAddsItsGradientToThePolicys(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{Critic: learn.SharedCritic})
	b := playedBatch(t, m)
	o := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}}
	alone, _, _ := gradientsOf(t, m, b, o)
	require.Zero(t, Largest(alone["score.weight"]))
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
	require.Positive(t, Largest(three["score.weight"]))
}

func TestSeparateCriticLearnsItsReturns(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{Critic: learn.SeparateCritic})
	b := playedBatch(t, m)
	opt := policy.DefaultOptimizer()
	opt.CriticRate = 1e-2
	before := Read(t, m.Sets.Actor.Weights)
	o := policy.Objective{CriticOnly: true, ValueCoef: 1, Temperature: 1}
	var losses []float64
	for range 25 {
		s := update(t, m, b, o, opt)
		require.Zero(t, s.GradNorm)
		losses = append(losses, s.ValueLoss)
	}
	require.Less(t, losses[24], losses[0]/4)
	require.Equal(t, before, Read(t, m.Sets.Actor.Weights), "training the critic alone leaves the policy bit for bit")
	require.Nil(t, m.Sets.Actor.Adam)

	critic := Read(t, m.Sets.Critic.Weights)
	update(t, m, b, policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}}, opt)
	require.Equal(t, critic, Read(t, m.Sets.Critic.Weights), "and ValueCoef 0 leaves the critic")
	require.NotEqual(t, before, Read(t, m.Sets.Actor.Weights))
}

// The gradient of clipped value errors is that of plain ones with the same
// derivatives by value, which the objective has for Score's values.
func TestClippedValueLossIsThatOfTheObjective(t *testing.T) {
	m := New(t, model.Qwen2, Options{Critic: learn.SeparateCritic})
	b := playedBatch(t, m)
	mask := learn.NonZero(len(b.Tokens), b.ValueWeight)
	s := scored(t, m, &b.Rows, mask, policy.ScoreRequest{Values: true})
	weights, err := loss.Aggregation{Mode: loss.TokenMean}.Weights(nil, b.Offsets, mask)
	require.NoError(t, err)
	for i, w := range weights {
		b.ValueWeight[i] = float32(w)
	}
	o := policy.Objective{CriticOnly: true, Temperature: 1, ValueCoef: 1, ValueClip: 0.3}
	e, want := plain(t, b, o, s)
	_, clipped, stats := gradientsOf(t, m, b, o)
	require.InDelta(t, want.ValueLoss, stats.ValueLoss, 1e-5*want.ValueLoss)
	require.InDelta(t, want.ValueClip, stats.ValueClip, 1e-6)
	require.Positive(t, stats.ValueClip)
	require.Less(t, stats.ValueClip, 1.0)

	for i := range mask {
		if mask[i] {
			b.Returns[i] = s.Values[i] - float32(e.Slopes.Values[i])/b.ValueWeight[i]
		}
	}
	o.ValueClip = 0
	_, unclipped, _ := gradientsOf(t, m, b, o)
	requireGradients(t, unclipped, clipped)
}

func TestSkippedStepsChangeNothing(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{Critic: learn.SeparateCritic})
	b := playedBatch(t, m)
	o := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}, ValueCoef: 1}
	opt := policy.DefaultOptimizer()
	opt.Rate, opt.CriticRate = 1e-2, 1e-2
	update(t, m, b, o, opt)
	state := func() []map[string][]float32 {
		var out []map[string][]float32
		for _, l := range []*learn.Learner{m.Sets.Actor, m.Sets.Critic} {
			out = append(out, Read(t, l.Weights), Read(t, l.Adam.M), Read(t, l.Adam.V))
		}
		return out
	}
	before := state()
	skip := func(b *policy.Batch, opt policy.Optimizer) policy.Stats {
		t.Helper()
		s := update(t, m, b, o, opt)
		require.True(t, s.Skipped)
		require.Equal(t, before, state())
		require.Equal(t, []int{1, 1}, []int{m.Sets.Actor.Adam.Steps, m.Sets.Critic.Adam.Steps})
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

	// A step of the critic alone is not skipped.
	alone := *b
	alone.Weight = noWeight.Weight
	actor := Read(t, m.Sets.Actor.Weights)
	require.False(t, update(t, m, &alone, o, opt).Skipped)
	require.Equal(t, actor, Read(t, m.Sets.Actor.Weights))
	require.Equal(t, 2, m.Sets.Critic.Adam.Steps)

	// A repeated call performs the step.
	require.False(t, update(t, m, b, o, opt).Skipped)
	require.NotEqual(t, before, state())
}

func TestGradientsAreClippedByTheirGlobalNorm(t *testing.T) {
	m := New(t, model.Qwen2, Options{})
	b := playedBatch(t, m)
	o := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}}
	free, _, s := gradientsOf(t, m, b, o)
	clip := still
	clip.GradClip = s.GradNorm / 4
	after := update(t, m, b, o, clip)
	require.InEpsilon(t, s.GradNorm, after.GradNorm, 1e-6, "it is reported before clipping")
	var squares float64
	for name, x := range Read(t, m.Sets.Actor.Adam.M) {
		squares += math.Pow(norm(x), 2)
		for i := range x {
			require.InDelta(t, float64(free[name][i])/4, x[i], GradLimit*Largest(x), name)
		}
	}
	require.InEpsilon(t, clip.GradClip, math.Sqrt(squares), 1e-4)
}

func norm(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}
