package learn_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// TestCPUDevicesGiveTheSameBytes is TestAnyNumberOfDevicesGivesTheSameBytes and
// TestRanksGiveTheBytesOfOneProcess on XLA's CPU devices, which are real devices with memory of their own; adapters,
// whose arrays go the same ways, are compared there alone. Rows have one length, because XLA compiles each shape, for
// each device. A model that is opened again loads the executables of all of its devices.
func TestCPUDevicesGiveTheSameBytes(t *testing.T) {
	t.Parallel()
	OnCPU(t)
	dir := Folder(t, model.Qwen2, nil)
	var want, state any
	shapes := [][2]int{{1, 1}, {1, 2}, {1, 2}, {2, 2}} // ranks, devices of each
	for i, shape := range shapes {
		ranks, n := shape[0], shape[1]
		o := Options{Backend: backend.XLA, Devices: n, SameBytes: true}
		m, others := lead(t, dir, o, ranks)
		var prompts []policy.Prompt
		for i := range 8 {
			prompts = append(prompts, policy.Prompt{Conversation: uint64(i), Messages: Say(Words[i%4]), Seed: uint64(i)})
		}
		played, err := m.Generate(t.Context(), prompts, policy.Sampling{Temperature: 1, MaxTokens: 3})
		require.NoError(t, err)
		rows := policy.Rows{Offsets: []int{0}}
		for i := range 72 {
			if rows.Tokens = append(rows.Tokens, int32(7*i%200)); i%9 == 8 {
				rows.Offsets = append(rows.Offsets, i+1)
			}
		}
		var stats []policy.Stats
		for range 2 {
			stats = append(stats, m.Imitate(t, rows, Trues(72), 0.01))
		}
		got := []any{played, stats}
		if ranks*n == 1 {
			want, state = got, m.StateOf(t)
		}
		require.Equal(t, want, got, "%v ranks and devices", shape)
		require.Equal(t, state, m.StateOf(t), "%v ranks and devices", shape)
		if s := m.Dev.Store(); s != nil && i > 0 && shape == shapes[i-1] {
			loaded, compiled := s.Counts()
			require.Equal(t, []int{m.Dev.Executables(), 0}, []int{loaded, compiled})
		}
		if ranks*n > 1 {
			share := math.Float64frombits(m.Sets.Exchange.Share.Load())
			require.True(t, share > 0 && share < 1, "%v", share)
		}
		if ranks > 1 {
			same, err := Digests(m.Sets)
			require.NoError(t, err)
			require.NoError(t, m.Sets.Peers.Close())
			require.NoError(t, <-others[0].Ended)
			require.Equal(t, same, others[0].State)
		}
	}
}
