package vlm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/model"
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
			dir := tinyFolder(t, model.Qwen25VL, nil)
			m, off := openTiny(t, dir, o), openTiny(t, dir, offloaded(o))
			requireSameLife(t, m, off)
		})
	}
}

// requireSameLife plays, scores, learns, ties and restores with two models, which must give the
// same bytes. The second one also leaves its path and returns to it from a checkpoint.
func requireSameLife(t *testing.T, m, other *Model) {
	t.Helper()
	var want, got lived
	live(t, m, 1, &want)
	live(t, other, 1, &got)
	require.Equal(t, want, got)
	require.NoError(t, m.Tie(t.Context()))
	require.NoError(t, other.Tie(t.Context()))
	require.Equal(t, stateOf(t, m), stateOf(t, other))
	saved := save(t, other)
	live(t, other, 3, &lived{}) // moves on from the checkpoint
	require.NotEqual(t, stateOf(t, m), stateOf(t, other))
	require.NoError(t, other.Restore(t.Context(), saved))
	live(t, m, 2, &want)
	live(t, other, 2, &got)
	require.Equal(t, want, got, "after the checkpoint")
	require.Equal(t, stateOf(t, m), stateOf(t, other))
}

// TestASnapshotKeepsItsMoments: moments in host memory change with the next update, those of a
// snapshot do not.
func TestASnapshotKeepsItsMoments(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, offloaded(Options{}))
	live(t, m, 0, &lived{})
	s, err := m.Snapshot(t.Context())
	require.NoError(t, err)
	before := stateOf(t, m)
	live(t, m, 1, &lived{})
	require.NotEqual(t, before, stateOf(t, m))
	dir := t.TempDir()
	require.NoError(t, s.Save(t.Context(), dir))
	require.NoError(t, m.Restore(t.Context(), dir))
	require.Equal(t, before, stateOf(t, m))
}

func TestOffloadingFreesTheDevices(t *testing.T) {
	t.Parallel()
	for _, devices := range []int{1, 4} {
		m := newTiny(t, model.Qwen25VL, offloaded(Options{Critic: SeparateCritic, Reference: true, Devices: devices}))
		for round := range 2 {
			live(t, m, round, &lived{})
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
	dir := tinyFolder(t, model.Qwen25VL, nil)
	_, err := Open(t.Context(), dir, Options{Backend: backend.Go, OffloadReference: true, OffloadCriticMoments: true, Critic: SharedCritic})
	require.ErrorIs(t, err, ErrOption)
	require.ErrorContains(t, err, "OffloadReference is set, but Reference is not")
	require.ErrorContains(t, err, `OffloadCritic is false and OffloadCriticMoments true, but Critic is "shared", not "separate"`)
}
