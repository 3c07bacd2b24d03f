package env_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/reward"
)

// claims attaches claims to every turn.
type claims struct{ counter }

func (c *claims) Claiming() bool { return true }

func (c *claims) Step(ctx context.Context, text string) (env.Outcome, error) {
	out, err := c.counter.Step(ctx, text)
	out.Claims = []reward.Claim{{Section: reward.SectionObservation, Text: text, Weight: 0.5},
		{Section: reward.SectionPrediction, Text: text, Weight: 0.5}}
	return out, err
}

type judgeFunc func(context.Context, []reward.Claim) ([]float64, error)

func (f judgeFunc) Score(ctx context.Context, c []reward.Claim) ([]float64, error) { return f(ctx, c) }

func TestRegistryHasClaimsPaid(t *testing.T) {
	var r env.Registry
	require.NoError(t, r.Register("claims", func(map[string]any) (env.Env, error) { return &claims{}, nil }))
	require.NoError(t, r.Register("silent", func(map[string]any) (env.Env, error) { return &counter{}, nil }))
	play := func(name string) env.Outcome {
		e, err := r.New(name, nil)
		require.NoError(t, err)
		envtest.Reset(t, e, 1)
		out := envtest.Play(t, e, "x")
		return out
	}
	before := play("claims").Reward.Sum()
	for name, c := range map[string]struct {
		judge    judgeFunc
		paid     float64
		unjudged float64
	}{
		"scores": {func(context.Context, []reward.Claim) ([]float64, error) { return []float64{1, -0.1}, nil }, 0.45, 0},
		"one": {func(context.Context, []reward.Claim) ([]float64, error) {
			return []float64{math.NaN(), 1}, nil
		}, 0.5, 1},
		"outage": {func(context.Context, []reward.Claim) ([]float64, error) { return nil, errors.New("down") }, 0, 2},
		"garbage": {func(context.Context, []reward.Claim) ([]float64, error) {
			return []float64{math.Inf(1), 1}, nil
		}, 0.5, 1},
		"short": {func(context.Context, []reward.Claim) ([]float64, error) { return []float64{1}, nil }, 0, 2},
	} {
		r.SetJudge(c.judge)
		out := play("claims")
		require.InDelta(t, before+c.paid, out.Reward.Sum(), 1e-12, name)
		require.Equal(t, c.unjudged, out.Turn[env.MetricUnjudged], name)
	}
	e, err := r.New("silent", nil)
	require.NoError(t, err)
	require.IsType(t, &counter{}, e, "environments without claims need no judge")
	r.SetJudge(nil)
	e, err = r.New("claims", nil)
	require.NoError(t, err)
	require.IsType(t, &claims{}, e)
}

func TestJudgedStepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := env.Judged{&claims{}, judgeFunc(func(ctx context.Context, _ []reward.Claim) ([]float64, error) {
		cancel()
		return nil, ctx.Err()
	})}
	_, err := e.Reset(ctx, 1)
	require.NoError(t, err)
	_, err = e.Step(ctx, "x")
	require.ErrorIs(t, err, context.Canceled)
	require.IsType(t, &claims{}, e.Unwrap())
}
