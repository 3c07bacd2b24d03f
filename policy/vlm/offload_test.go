package vlm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// offloaded returns options with everything in host memory that can be there.
func offloaded(o Options) Options {
	separate := o.Critic == SeparateCritic
	o.OffloadMoments, o.OffloadReference, o.OffloadCritic, o.OffloadCriticMoments = true, o.Reference, separate, separate
	return o
}

// TestOffloadingChangesNoBytes plays, scores, learns, ties and restores with and without
// moments and reference in host memory.
func TestOffloadingChangesNoBytes(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"one device":   {Critic: SeparateCritic, Reference: true},
		"adapters":     {Critic: SeparateCritic, Reference: true, LoRA: &LoRA{Rank: 2, Alpha: 4}},
		"four devices": {Critic: SharedCritic, Reference: true, Devices: 4},
	} {
		t.Run(name, func(t *testing.T) {
			dir := vlmtest.Folder(t, model.Qwen25VL, nil)
			m, off := openTiny(t, dir, o), openTiny(t, dir, offloaded(o))
			requireSameLife(t, m, off)
		})
	}
}

// requireSameLife plays, scores, learns, ties and restores with two models, which must give the
// same bytes. The second one also leaves its path and returns to it from a checkpoint.
func requireSameLife(t *testing.T, m, other *Model) {
	t.Helper()
	var want, got vlmtest.Lived
	vlmtest.Live(t, m, m.sets, m.text, 1, &want)
	vlmtest.Live(t, other, other.sets, other.text, 1, &got)
	require.Equal(t, want, got)
	require.NoError(t, m.Tie(t.Context()))
	require.NoError(t, other.Tie(t.Context()))
	require.Equal(t, vlmtest.StateOf(t, m.sets), vlmtest.StateOf(t, other.sets))
	saved := save(t, other)
	vlmtest.Live(t, other, other.sets, other.text, 3, &vlmtest.Lived{}) // moves on from the checkpoint
	require.NotEqual(t, vlmtest.StateOf(t, m.sets), vlmtest.StateOf(t, other.sets))
	require.NoError(t, other.Restore(t.Context(), saved))
	vlmtest.Live(t, m, m.sets, m.text, 2, &want)
	vlmtest.Live(t, other, other.sets, other.text, 2, &got)
	require.Equal(t, want, got, "after the checkpoint")
	require.Equal(t, vlmtest.StateOf(t, m.sets), vlmtest.StateOf(t, other.sets))
}

// TestASnapshotKeepsItsMoments: moments in host memory change with the next update, those of a
// snapshot do not.
func TestASnapshotKeepsItsMoments(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, offloaded(Options{}))
	vlmtest.Live(t, m, m.sets, m.text, 0, &vlmtest.Lived{})
	s, err := m.Snapshot(t.Context())
	require.NoError(t, err)
	before := vlmtest.StateOf(t, m.sets)
	vlmtest.Live(t, m, m.sets, m.text, 1, &vlmtest.Lived{})
	require.NotEqual(t, before, vlmtest.StateOf(t, m.sets))
	dir := t.TempDir()
	require.NoError(t, s.Save(t.Context(), dir))
	require.NoError(t, m.Restore(t.Context(), dir))
	require.Equal(t, before, vlmtest.StateOf(t, m.sets))
}

func TestOffloadingFreesTheDevices(t *testing.T) {
	t.Parallel()
	for _, devices := range []int{1, 4} {
		m := newTiny(t, model.Qwen25VL, offloaded(Options{Critic: SeparateCritic, Reference: true, Devices: devices}))
		for round := range 2 {
			vlmtest.Live(t, m, m.sets, m.text, round, &vlmtest.Lived{})
			require.NoError(t, m.Tie(t.Context()))
			require.NoError(t, m.Restore(t.Context(), save(t, m)))
			for i, d := range m.devices {
				_, bytes := d.Live()
				require.Equal(t, m.sets.Actor.Weights.Bytes(), bytes, "device %d of %d: weights of the policy", i, devices)
			}
		}
		scoring, err := m.Plan(Workload{Score: true, Rows: 4, Tokens: 32})
		require.NoError(t, err)
		playing, err := m.Plan(Workload{Generate: true, Rows: 4, Tokens: 32})
		require.NoError(t, err)
		require.Equal(t, int64(devices)*(m.sets.Ref.ParkedBytes()+m.sets.Critic.ParkedBytes()), scoring.Weights-playing.Weights)
		require.Equal(t, int64(4*sizeOf(m.sets.Actor)), m.sets.Ref.ParkedBytes())
	}
}

func TestOffloadingNeedsWhatItMoves(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen25VL, nil)
	_, err := Open(t.Context(), dir, Options{Backend: backend.Go, OffloadReference: true, OffloadCriticMoments: true, Critic: SharedCritic})
	require.ErrorIs(t, err, ErrOption)
	require.ErrorContains(t, err, "OffloadReference is set, but Reference is not")
	require.ErrorContains(t, err, `OffloadCritic is false and OffloadCriticMoments true, but Critic is "shared", not "separate"`)
}
