package vlm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// TestCPUDevicesGiveTheSameBytes is TestAnyNumberOfDevicesGivesTheSameBytes and
// TestNodesGiveTheBytesOfOneProcess on XLA's CPU devices, which are real devices with memory of their own. Rows have one length, because
// XLA compiles each shape. A model that is opened again loads the executables of all of its devices.
func TestCPUDevicesGiveTheSameBytes(t *testing.T) {
	t.Parallel()
	d := vlmtest.Device(t)
	if d.PureGo() || d.Accelerator() {
		t.Skipf("the backend is %s", d.Name())
	}
	dir := vlmtest.Folder(t, model.Qwen2, nil)
	for _, c := range []struct {
		name   string
		lora   *LoRA
		shapes [][2]int // nodes, devices of each
	}{{"all weights", nil, [][2]int{{1, 1}, {1, 4}, {1, 4}, {2, 2}}}, {"adapters", &LoRA{Rank: 2, Alpha: 4}, [][2]int{{1, 1}, {1, 2}, {2, 1}}}} {
		name := c.name
		var want, state any
		for i, shape := range c.shapes {
			nodes, n := shape[0], shape[1]
			o := Options{Backend: backend.XLA, Devices: n, SameBytes: true, LoRA: c.lora}
			var others []*node
			if nodes > 1 {
				o, others = startNodes(t, dir, o, nodes, nil)
			}
			m := openTiny(t, dir, o)
			if nodes > 1 {
				require.NoError(t, m.Connect(t.Context()))
			}
			var prompts []policy.Prompt
			for i := range 8 {
				prompts = append(prompts, policy.Prompt{Conversation: uint64(i), Messages: vlmtest.Say(vlmtest.Words[i%4]), Seed: uint64(i)})
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
				stats = append(stats, vlmtest.Imitate(t, m.sets, rows, vlmtest.Trues(72), 0.01))
			}
			got := []any{played, stats}
			if nodes*n == 1 {
				want, state = got, vlmtest.StateOf(t, m.sets)
			}
			require.Equal(t, want, got, "%s on %v nodes and devices", name, shape)
			require.Equal(t, state, vlmtest.StateOf(t, m.sets), "%s on %v nodes and devices", name, shape)
			if s := m.dev.Store(); s != nil && i > 0 && shape == c.shapes[i-1] {
				loaded, compiled := s.Counts()
				require.Equal(t, []int{m.dev.Executables(), 0}, []int{loaded, compiled})
			}
			if nodes*n > 1 {
				g := m.Gauges()
				require.Equal(t, float64(n), g["devices"])
				require.True(t, g["exchange_share"] > 0 && g["exchange_share"] < 1, "%v", g)
			}
			if nodes > 1 {
				same, err := digests(m)
				require.NoError(t, err)
				require.NoError(t, m.Close())
				require.NoError(t, <-others[0].ended)
				require.Equal(t, same, others[0].state)
			}
		}
	}
}
