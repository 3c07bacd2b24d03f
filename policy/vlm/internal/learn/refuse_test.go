package learn_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

func TestUpdateRefusesWhatItCannotLearn(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{Critic: learn.SeparateCritic})
	m.Train(t, 1)
	good := playedBatch(t, m)
	before := m.Saved(t)
	var b policy.Batch
	var o policy.Objective
	var opt policy.Optimizer
	reset := func() {
		b, opt = *good, policy.DefaultOptimizer()
		o = policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}, KL: "k2", KLCoef: 0.1,
			ValueCoef: 1, ValueClip: 0.5}
	}
	refused := func(want string) error {
		t.Helper()
		_, err := m.Update(t.Context(), &b, o, opt)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "vlm: ")
		reset()
		return err
	}
	reset()
	for name, column := range map[string]*[]float32{
		"Weight": &b.Weight, "ValueWeight": &b.ValueWeight, "OldLogProbs": &b.OldLogProbs, "Advantages": &b.Advantages,
		"Reference": &b.Reference, "Returns": &b.Returns, "OldValues": &b.OldValues,
	} {
		*column = nil
		require.ErrorIs(t, refused(name+": column"), loss.ErrMissing)
		*column = (*column)[:3]
		require.ErrorIs(t, refused(name+" has 3 numbers for"), loss.ErrLength)
		*column = slices.Clone(*column)
		(*column)[5] = float32(math.NaN())
		require.ErrorIs(t, refused(name+" at token 5 is NaN"), loss.ErrNotFinite)
	}
	for want, change := range map[string]func(){
		"temperature is 0, must be at least 1e-09": func() { o.Temperature = 0 },
		"temperature is +Inf":                      func() { o.Temperature = math.Inf(1) },
		"k7":                                       func() { o.KL = "k7" },
		"row offsets must go from 0":               func() { b.Offsets = b.Offsets[1:] },
		"id 272, must be in [0, 272)":              func() { b.Tokens = append([]int32{272}, b.Tokens[1:]...) },
		"images, but placeholders for": func() {
			b.Images = slices.Clone(b.Images)
			b.Images[1] = b.Images[0]
		},
		"Rate is NaN, must be at least 0":    func() { opt.Rate = math.NaN() },
		"CriticRate is -1":                   func() { opt.CriticRate = -1 },
		"Beta1 is 1, must be in [0, 1)":      func() { opt.Beta1 = 1 },
		"Beta2 is 2, must be in [0, 1)":      func() { opt.Beta2 = 2 },
		"Epsilon is 0, must be above 0":      func() { opt.Epsilon = 0 },
		"WeightDecay is -0.1":                func() { opt.WeightDecay = -0.1 },
		"GradClip is NaN":                    func() { opt.GradClip = math.NaN() },
		"MaxGradNorm is +Inf, must be at le": func() { opt.MaxGradNorm = math.Inf(1) },
	} {
		change()
		refused(want)
	}
	RequireSameFiles(t, before, m.Saved(t))
}

func TestCriticOnlyNeedsASeparateCritic(t *testing.T) {
	for _, c := range []vlm.Critic{learn.NoCritic, learn.SharedCritic} {
		m := New(t, model.Qwen2, Options{Critic: c})
		b := playedBatch(t, m)
		_, err := m.Update(t.Context(), b, policy.Objective{CriticOnly: true, Temperature: 1, ValueCoef: 1},
			policy.DefaultOptimizer())
		testkit.Error(t, err, backend.ErrOption, "CriticOnly needs a separate critic")
	}
}
