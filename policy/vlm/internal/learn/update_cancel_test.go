package learn_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	"vagen/policy/vlm/internal/net"
	. "vagen/policy/vlm/internal/vlmtest"
)

func TestUpdatesEndConversations(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{})
	rows, want := m.FourRows(t)
	m.Imitate(t, rows, want, 0) // makes the moments
	before, _ := m.Dev.Live()
	_, err := m.Generate(t.Context(), Asks(), policy.Sampling{MaxTokens: 2})
	require.NoError(t, err)
	m.Imitate(t, rows, want, 0)
	require.Empty(t, m.Gen.Chats)
	after, _ := m.Dev.Live()
	require.Equal(t, before, after)
}

// Policy and separate critic are both stopped by the end of the context, or neither.
func TestCancelledUpdatesChangeNothing(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{Critic: learn.SeparateCritic, MicroTokens: 24})
	rows, want := m.FourRows(t)
	n := Evenly(want)
	b := &policy.Batch{Rows: rows, Weight: n, ValueWeight: n, OldLogProbs: n, Advantages: n, Returns: n, OldValues: n}
	o := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}, ValueCoef: 1}
	m.Train(t, 1)
	arrays, _ := m.Dev.Live()
	before := m.StateOf(t)
	done := false
	for looks := 0; !done; looks++ {
		_, err := m.Update(Countdown(t.Context(), looks), b, o, policy.DefaultOptimizer())
		live, _ := m.Dev.Live()
		require.Equal(t, arrays, live, "after %d looks", looks)
		if done = err == nil; done {
			require.Greater(t, looks, 2)
			continue
		}
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, before, m.StateOf(t), "after %d looks", looks)
	}
	for name, now := range m.StateOf(t) {
		require.NotEqual(t, before[name], now, name)
	}
}

// Gradients are added for policy and separate critic, or for neither.
func TestCancelledAccumulationAddsToPolicyAndCriticTogether(t *testing.T) {
	m := New(t, model.Qwen2, Options{Critic: learn.SeparateCritic, MicroTokens: 24})
	rows, want := m.FourRows(t)
	n := Evenly(want)
	b := &policy.Batch{Rows: rows, Weight: n, ValueWeight: n, OldLogProbs: n, Advantages: n, Returns: n, OldValues: n}
	o := policy.Objective{Temperature: 1, Policy: loss.Reinforce{}, ValueCoef: 1}
	done := false
	for looks := 0; !done; looks++ {
		_, err := m.Accumulate(Countdown(t.Context(), looks), b, o)
		done = err == nil
		require.Equal(t, done, m.Sets.Actor.Open != nil, "after %d looks", looks)
		require.Equal(t, done, m.Sets.Critic.Open != nil, "after %d looks", looks)
		require.Less(t, looks, 50)
	}
	m.Sets.Actor.DropGradients()
	m.Sets.Critic.DropGradients()
}

func TestFailedBackwardPassesLeaveNothingOnTheDevice(t *testing.T) {
	m := New(t, model.Qwen2, Options{})
	rows, want := m.FourRows(t)
	m.Gen.DropSessions()
	packs, err := m.Sets.Packer(m.Net).Packs(&rows, want)
	require.NoError(t, err)
	before, _ := m.Dev.Live()
	tr, err := m.Net.Forward(m.Sets.Actor.Parts, packs[0], true)
	require.NoError(t, err)
	dx, err := m.Net.ZeroLike().Run([]*device.Array{tr.X})
	require.NoError(t, err)
	g := net.NewGradients(m.Sets.Actor.Parts)
	tr.Cos.Free() // what every layer needs
	require.ErrorIs(t, m.Net.Backward(m.Sets.Actor.Parts, g, tr, dx[0]), device.ErrClosed)
	tr.Free()
	m.Net.FreeGradients(g)
	after, _ := m.Dev.Live()
	require.Equal(t, before, after)
}
