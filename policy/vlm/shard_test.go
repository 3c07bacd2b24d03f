package vlm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
)

// sharding are settings with which divided weights are compared with whole ones.
var sharding = map[string]Options{
	"critic and reference":           {Critic: SeparateCritic, Reference: true},
	"in host memory":                 {Critic: SeparateCritic, Reference: true, OffloadMoments: true, OffloadReference: true, OffloadCritic: true, OffloadCriticMoments: true},
	"adapters":                       {Critic: SeparateCritic, Reference: true, LoRA: &LoRA{Rank: 2, Alpha: 4}},
	"frozen tower":                   {Critic: SharedCritic, Freeze: []string{"model.visual.*"}, BFloat16: true, Recompute: RecomputeBlocks},
	"a part of work for each device": {PartPerDevice: true},
}

// TestDividedWeightsGiveTheSameBytes plays, scores, learns, ties and restores, with all weights
// on each device and with weights that are divided over the devices.
func TestDividedWeightsGiveTheSameBytes(t *testing.T) {
	t.Parallel()
	for name, o := range sharding {
		t.Run(name, func(t *testing.T) {
			dir := tinyFolder(t, model.Qwen25VL, nil)
			o.Devices = 4
			whole := openTiny(t, dir, o)
			o.ShardWeights = true
			divided := openTiny(t, dir, o)
			requireSameLife(t, whole, divided)
			snapshot, err := divided.SnapshotPolicy(t.Context())
			require.NoError(t, err)
			sampling := policy.Sampling{Temperature: 1, MaxTokens: 6}
			written, err := snapshot.Generate(t.Context(), asks(), sampling)
			require.NoError(t, err)
			direct, err := whole.Generate(t.Context(), asks(), sampling)
			require.NoError(t, err)
			require.Equal(t, direct, written)
			live(t, divided, 4, &lived{})
			require.NoError(t, snapshot.Close())
		})
	}
}

// TestDividedWeightsAreOnOneDeviceEach: between calls the devices hold every weight and moment
// once, and each device about as much as every other. Open conversations need the decoder on
// their device, until they end.
func TestDividedWeightsAreOnOneDeviceEach(t *testing.T) {
	t.Parallel()
	m := newTiny(t, model.Qwen25VL, Options{Critic: SeparateCritic, Devices: 4, ShardWeights: true})
	held := func() (each []int64, sum int64) {
		for _, d := range m.devices {
			_, bytes := d.Live()
			each, sum = append(each, bytes), sum+bytes
		}
		return each, sum
	}
	weights := m.sets.Actor.Weights.Bytes() + m.sets.Critic.Weights.Bytes()
	_, sum := held()
	require.Equal(t, weights, sum)
	for round := range 2 {
		live(t, m, round, &lived{})
		require.NoError(t, m.Tie(t.Context()))
		require.NoError(t, m.Restore(t.Context(), save(t, m)))
		moments := m.sets.Actor.Adam.M.Bytes() + m.sets.Actor.Adam.V.Bytes() + m.sets.Critic.Adam.M.Bytes() + m.sets.Critic.Adam.V.Bytes()
		devices, sum := held()
		require.Equal(t, weights+moments, sum)
		for i, bytes := range devices {
			require.InEpsilon(t, sum/4, bytes, 0.25, "device %d", i)
		}

		_, err := m.Generate(t.Context(), asks(), policy.Sampling{Temperature: 1, MaxTokens: 6})
		require.NoError(t, err)
		_, playing := held()
		require.Greater(t, playing-sum, 2*m.gen.NarrowBytes(), "copies of what a device does not have anyway, and caches")
		m.Forget(keysOf(asks())...)
		_, after := held()
		require.Equal(t, sum, after)
	}
}

// TestAMemoryPlanCountsDividedWeights: on a CPU, whose devices share its memory, the plan has
// the weights once and a layer of them for each device.
func TestAMemoryPlanCountsDividedWeights(t *testing.T) {
	dir := tinyFolder(t, model.Qwen25VL, nil)
	planned := func(shard bool, w Workload) MemoryPlan {
		m := openTiny(t, dir, Options{Devices: 4, ShardWeights: shard})
		p, err := m.Plan(w)
		require.NoError(t, err)
		return p
	}
	m := openTiny(t, dir, Options{})
	all, largest := m.sets.Actor.Weights.Bytes(), int64(0)
	for _, g := range m.sets.Actor.Weights.Groups {
		largest = max(largest, 4*int64(g.Size()))
	}
	train := Workload{Train: true, Rows: 8, Tokens: 32}
	require.Equal(t, 4*all, planned(false, train).Weights)
	require.Equal(t, all+4*largest, planned(true, train).Weights)
	play := Workload{Generate: true, Rows: 8, Tokens: 32}
	decoder := openTiny(t, dir, Options{Devices: 4, ShardWeights: true}).gen.NarrowBytes()
	require.Greater(t, decoder, all/4)
	require.Equal(t, planned(false, play).Caches+4*decoder, planned(true, play).Caches)
}
