package vlm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

func TestUpdatesEndConversations(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{})
	rows, want := fourRows(t, m)
	imitate(t, m, rows, want, 0) // makes the moments
	before, _ := m.dev.Live()
	_, err := m.Generate(t.Context(), asks(), policy.Sampling{MaxTokens: 2})
	require.NoError(t, err)
	imitate(t, m, rows, want, 0)
	require.Empty(t, m.gen.Chats)
	after, _ := m.dev.Live()
	require.Equal(t, before, after)
}

func TestCancelledUpdatesChangeNothing(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{MicroTokens: 24})
	rows, want := fourRows(t, m)
	imitate(t, m, rows, want, 1e-3)
	before, weights := int64(0), weightsOf(t, m.sets.Actor)
	before, _ = m.dev.Live()
	b := &policy.Batch{Rows: rows, Weight: evenly(want)}
	done := false
	for looks := 0; !done; looks++ {
		_, err := m.Update(&countdown{t.Context(), looks}, b, policy.Objective{Imitate: true, Temperature: 1}, policy.DefaultOptimizer())
		live, _ := m.dev.Live()
		require.Equal(t, before, live, "after %d looks", looks)
		if done = err == nil; done {
			require.Greater(t, looks, 2)
			continue
		}
		require.ErrorIs(t, err, (&countdown{}).Err())
		require.Equal(t, weights, weightsOf(t, m.sets.Actor))
		require.Equal(t, 1, m.sets.Actor.Adam.Steps)
	}
	require.NotEqual(t, weights, weightsOf(t, m.sets.Actor))
}

// Policy and separate critic are both stopped by the end of the context, or neither.
func TestCancelledUpdatesStepPolicyAndCriticTogether(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{Critic: SeparateCritic, MicroTokens: 24})
	rows, want := fourRows(t, m)
	n := evenly(want)
	b := &policy.Batch{Rows: rows, Weight: n, ValueWeight: n, OldLogProbs: n, Advantages: n, Returns: n, OldValues: n}
	o := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}, ValueCoef: 1}
	actor, critic := weightsOf(t, m.sets.Actor), weightsOf(t, m.sets.Critic)
	done := false
	for looks := 0; !done; looks++ {
		_, err := m.Update(&countdown{t.Context(), looks}, b, o, policy.DefaultOptimizer())
		done = err == nil
		require.Equal(t, done, len(changed(actor, weightsOf(t, m.sets.Actor))) > 0, "after %d looks", looks)
		require.Equal(t, done, len(changed(critic, weightsOf(t, m.sets.Critic))) > 0, "after %d looks", looks)
		require.Less(t, looks, 50)
	}
}

func TestFailedBackwardPassesLeaveNothingOnTheDevice(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{})
	rows, want := fourRows(t, m)
	m.gen.DropSessions()
	packs, err := m.sets.Packer(m.net).Packs(&rows, want)
	require.NoError(t, err)
	before, _ := m.dev.Live()
	tr, err := m.net.Forward(m.sets.Actor.Parts, packs[0], true)
	require.NoError(t, err)
	dx, err := m.net.ZeroLike().Run([]*device.Array{tr.X})
	require.NoError(t, err)
	g := net.NewGradients(m.sets.Actor.Parts)
	tr.Cos.Free() // what every layer needs
	require.ErrorIs(t, m.net.Backward(m.sets.Actor.Parts, g, tr, dx[0]), device.ErrClosed)
	tr.Free()
	m.net.FreeGradients(g)
	after, _ := m.dev.Live()
	require.Equal(t, before, after)
}
