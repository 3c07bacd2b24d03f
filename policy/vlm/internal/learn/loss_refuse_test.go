package learn_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// No program knows a loss: all share one forward and one backward head.
func TestLossesShareTheirPrograms(t *testing.T) {
	m := New(t, model.Qwen3, Options{})
	take := func(name string) {
		o := lossCases()["loss="+name]
		b, mask, _ := lossBatch(t, m, o.Temperature)
		weigh(t, b, o, mask)
		update(t, m, b, o, policy.DefaultOptimizer())
	}
	take("")
	count := m.Dev.Executables()
	for _, name := range []string{"gspo", "turn_gspo", "sapo", "custom"} {
		take(name)
	}
	require.Equal(t, count, m.Dev.Executables())
}

func TestUpdateRefusesLossesItCannotTakeBeforeItStarts(t *testing.T) {
	m := New(t, model.Qwen3, Options{})
	good := lossCases()["loss=turn_gspo"]
	b, mask, _ := lossBatch(t, m, good.Temperature)
	weigh(t, b, good, mask)
	first := slices.Index(mask, true)
	for what, c := range map[string]struct {
		change func(b *policy.Batch, o *policy.Objective)
		is     error
		says   string
	}{
		"custom setting": {func(_ *policy.Batch, o *policy.Objective) {
			o.Policy = ownLoss{Policy: loss.PPO{Low: 3}}
		}, loss.ErrSetting, "Low = 3"},
		"setting": {func(_ *policy.Batch, o *policy.Objective) {
			o.Policy = loss.TurnGSPO{Low: 2}
		}, loss.ErrSetting, "Low = 2"},
		"no turns":  {func(b *policy.Batch, _ *policy.Objective) { b.Turn = nil }, loss.ErrMissing, "turn"},
		"few turns": {func(b *policy.Batch, _ *policy.Objective) { b.Turn = b.Turn[1:] }, loss.ErrLength, "Turn"},
		"turn": {func(b *policy.Batch, _ *policy.Objective) { b.Turn = slices.Clone(b.Turn); b.Turn[first] = -1 },
			loss.ErrTurn, fmt.Sprint("position ", first)},
		"KL": {func(_ *policy.Batch, o *policy.Objective) { o.KL = "k4" }, loss.ErrUnknown, `"k4"`},
		"rollout weights": {func(b *policy.Batch, _ *policy.Objective) {
			b.RolloutWeight = b.RolloutWeight[1:]
		}, nil, "RolloutWeight has"},
		"custom turns": {func(b *policy.Batch, o *policy.Objective) {
			o.Policy, b.Turn = ownLoss{Policy: o.Policy}, b.Turn[1:]
		}, loss.ErrLength, "Turn has"},
		"negative weight": {func(b *policy.Batch, _ *policy.Objective) {
			b.RolloutWeight = slices.Clone(b.RolloutWeight)
			b.RolloutWeight[first] = -1
		}, nil, fmt.Sprintf("RolloutWeight at token %d is -1", first)},
		"weight of a token left out": {func(b *policy.Batch, _ *policy.Objective) {
			b.AuxWeight = slices.Clone(b.AuxWeight)
			b.AuxWeight[slices.Index(mask, false)] = 1
		}, nil, "AuxWeight at token 0 is 1, must be 0 because Weight is 0"},
	} {
		t.Run(what, func(t *testing.T) {
			batch, o := *b, good
			c.change(&batch, &o)
			_, err := m.Update(t.Context(), &batch, o, policy.DefaultOptimizer())
			require.Error(t, err)
			require.ErrorContains(t, err, "vlm: update: ")
			require.ErrorContains(t, err, c.says)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
		})
	}
	require.Nil(t, m.Sets.Actor.Adam, "no step was taken")
}

// If the network's numbers are not finite the step is skipped, with any loss.
func TestAStepWhoseLogProbsAreNotFiniteIsSkipped(t *testing.T) {
	for _, name := range []string{"gspo", "clip_cov", "sapo", "custom"} {
		t.Run(name, func(t *testing.T) {
			m := New(t, model.Qwen3, Options{})
			o := lossCases()["loss="+name]
			b, mask, _ := lossBatch(t, m, o.Temperature)
			weigh(t, b, o, mask)
			all := func(model.Param) bool { return true }
			require.NoError(t, m.Sets.Actor.Weights.Replace(all, func(_ model.Stored, x []float32) ([]float32, error) {
				out := make([]float32, len(x))
				for i := range out {
					out[i] = float32(math.NaN())
				}
				return out, nil
			}))
			require.True(t, update(t, m, b, o, policy.DefaultOptimizer()).Skipped)
		})
	}
}

func TestJointStepsLeaveNothingOnTheDevice(t *testing.T) {
	m := New(t, model.Qwen3, Options{MicroTokens: 32})
	o := lossCases()["loss=turn_gspo"]
	b, mask, _ := lossBatch(t, m, o.Temperature)
	weigh(t, b, o, mask)
	update := func(ctx context.Context) error {
		_, err := m.Update(ctx, b, o, policy.DefaultOptimizer())
		return err
	}
	require.NoError(t, update(t.Context()), "the optimiser's moments stay")
	before, _ := m.Dev.Live()
	require.NoError(t, update(t.Context()))
	// Cancelled between packs: before the second phase, and after it.
	for calls := range 12 {
		err := update(Countdown(t.Context(), calls))
		if err == nil {
			require.GreaterOrEqual(t, calls, 5, "several packs to score and to learn from")
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		after, _ := m.Dev.Live()
		require.Equal(t, before, after, "after %d packs", calls)
	}
	after, _ := m.Dev.Live()
	require.Equal(t, before, after)
}
