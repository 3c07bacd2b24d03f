package learn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// offloaded returns options with everything in host memory that can be there.
func offloaded(o Options) Options {
	separate := o.Critic == learn.SeparateCritic
	o.OffloadMoments, o.OffloadReference, o.OffloadCritic, o.OffloadCriticMoments = true, o.Reference, separate, separate
	return o
}

// requireSameLife learns, ties, restores, plays, scores and learns again with two models, which must give the
// same bytes. The second one also leaves its path and returns to it from a checkpoint.
func requireSameLife(t *testing.T, m, other *Model) {
	t.Helper()
	m.Train(t, 1)
	other.Train(t, 1)
	require.NoError(t, m.Sets.Tie(t.Context()))
	require.NoError(t, other.Sets.Tie(t.Context()))
	require.Equal(t, m.StateOf(t), other.StateOf(t))
	saved := other.Saved(t)
	other.Train(t, 1) // moves on from the checkpoint
	require.NotEqual(t, m.StateOf(t), other.StateOf(t))
	require.NoError(t, other.Restore(t.Context(), saved))
	var want, got lived
	live(t, m, 2, &want)
	live(t, other, 2, &got)
	require.Equal(t, want, got, "after the checkpoint")
	require.Equal(t, m.StateOf(t), other.StateOf(t))
}

// TestASnapshotKeepsItsMoments: moments in host memory change with the next update, those of a
// snapshot do not.
func TestASnapshotKeepsItsMoments(t *testing.T) {
	m := New(t, model.Qwen25VL, offloaded(Options{}))
	live(t, m, 0, &lived{})
	s, err := m.Sets.Copy(t.Context())
	require.NoError(t, err)
	before := m.StateOf(t)
	live(t, m, 1, &lived{})
	require.NotEqual(t, before, m.StateOf(t))
	dir := t.TempDir()
	require.NoError(t, s.Save(t.Context(), dir))
	require.NoError(t, m.Restore(t.Context(), dir))
	require.Equal(t, before, m.StateOf(t))
}

func TestOffloadingFreesTheDevices(t *testing.T) {
	t.Parallel()
	for _, devices := range []int{1, 4} {
		m := New(t, model.Qwen25VL, offloaded(Options{Critic: learn.SeparateCritic, Reference: true, Devices: devices}))
		for round := range 2 {
			live(t, m, round, &lived{})
			require.NoError(t, m.Sets.Tie(t.Context()))
			require.NoError(t, m.Restore(t.Context(), m.Saved(t)))
			for i, d := range m.Devices {
				_, bytes := d.Live()
				require.Equal(t, m.Sets.Actor.Weights.Bytes(), bytes, "device %d of %d: weights of the policy", i, devices)
			}
		}
		require.Equal(t, int64(4*sizeOf(m.Sets.Actor)), m.Sets.Ref.HostBytes())
	}
}
