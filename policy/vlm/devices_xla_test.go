package vlm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
)

// TestCPUDevicesGiveTheSameBytes is TestAnyNumberOfDevicesGivesTheSameBytes on XLA's CPU
// devices, which are real devices with memory of their own. Rows have one length, because
// XLA compiles each shape.
func TestCPUDevicesGiveTheSameBytes(t *testing.T) {
	d := testDevice(t)
	if d.PureGo() || d.Accelerator() {
		t.Skipf("the backend is %s", d.Name())
	}
	dir := tinyFolder(t, model.Qwen2, nil)
	for _, c := range []struct {
		name    string
		lora    *LoRA
		devices []int
	}{{"all weights", nil, []int{1, 4}}, {"adapters", &LoRA{Rank: 2, Alpha: 4}, []int{1, 2}}} {
		name := c.name
		var want, state any
		for _, n := range c.devices {
			m := openTiny(t, dir, Options{Backend: backendXLA, Devices: n, SameBytes: true, LoRA: c.lora})
			var prompts []policy.Prompt
			for i := range 8 {
				prompts = append(prompts, policy.Prompt{Conversation: uint64(i), Messages: say(tinyWords[i%4]), Seed: uint64(i)})
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
				stats = append(stats, imitate(t, m, rows, trues(72), 0.01))
			}
			got := []any{played, stats}
			if n == 1 {
				want, state = got, stateOf(t, m)
			}
			require.Equal(t, want, got, "%s on %d devices", name, n)
			require.Equal(t, state, stateOf(t, m), "%s on %d devices", name, n)
			if n > 1 {
				g := m.Gauges()
				require.Equal(t, float64(n), g["devices"])
				require.True(t, g["exchange_share"] > 0 && g["exchange_share"] < 1, "%v", g)
			}
		}
	}
}
