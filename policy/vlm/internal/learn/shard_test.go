package learn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// TestWhereWeightsAreChangesNoBytes plays, scores, learns, ties and restores: with all weights on each device and
// with weights that are divided over the devices, and with and without moments and reference in host memory.
func TestWhereWeightsAreChangesNoBytes(t *testing.T) {
	t.Parallel()
	critic := Options{Critic: learn.SeparateCritic, Reference: true}
	adapters := critic
	adapters.LoRA = &LoRA{Rank: 2, Alpha: 4}
	two := adapters
	two.Devices = 2
	four := Options{Critic: learn.SharedCritic, Reference: true, Devices: 4}
	pairs := map[string][2]Options{
		"offloaded, one device": {critic, offloaded(critic)}, "offloaded, adapters": {adapters, offloaded(adapters)},
		"offloaded, four devices":          {four, offloaded(four)},
		"offloaded, adapters, two devices": {two, offloaded(two)},
	}
	for name, o := range map[string]Options{
		"critic and reference": critic, "in host memory": offloaded(critic), "adapters": adapters,
		"frozen tower": {Critic: learn.SharedCritic, Freeze: []string{"model.visual.*"}, BFloat16: true,
			Recompute: vlm.RecomputeBlocks},
		"a part of work for each device": {PartPerDevice: true},
	} {
		o.Devices = 4
		divided := o
		divided.ShardWeights = true
		pairs["divided, "+name] = [2]Options{o, divided}
	}
	for name, o := range pairs {
		t.Run(name, func(t *testing.T) {
			dir := Folder(t, model.Qwen25VL, nil)
			requireSameLife(t, Open(t, dir, o[0]), Open(t, dir, o[1]))
		})
	}
}

// TestDividedWeightsAreOnOneDeviceEach: between calls the devices hold every weight and moment
// once, and each device about as much as every other. Open conversations need the decoder on
// their device, until they end.
func TestDividedWeightsAreOnOneDeviceEach(t *testing.T) {
	t.Parallel()
	m := New(t, model.Qwen25VL, Options{Critic: learn.SeparateCritic, Devices: 4, ShardWeights: true})
	held := func() (each []int64, sum int64) {
		for _, d := range m.Devices {
			_, bytes := d.Live()
			each, sum = append(each, bytes), sum+bytes
		}
		return each, sum
	}
	weights := m.Sets.Actor.Weights.Bytes() + m.Sets.Critic.Weights.Bytes()
	_, sum := held()
	require.Equal(t, weights, sum)
	for round := range 2 {
		live(t, m, round, &lived{})
		require.NoError(t, m.Sets.Tie(t.Context()))
		require.NoError(t, m.Restore(t.Context(), m.Saved(t)))
		moments := m.Sets.Actor.Adam.M.Bytes() + m.Sets.Actor.Adam.V.Bytes() + m.Sets.Critic.Adam.M.Bytes() +
			m.Sets.Critic.Adam.V.Bytes()
		devices, sum := held()
		require.Equal(t, weights+moments, sum)
		for i, bytes := range devices {
			require.InEpsilon(t, sum/4, bytes, 0.25, "device %d", i)
		}

		_, err := m.Generate(t.Context(), Asks(), policy.Sampling{Temperature: 1, MaxTokens: 6})
		require.NoError(t, err)
		_, playing := held()
		require.Greater(t, playing-sum, 2*m.Gen.NarrowBytes(), "copies of what a device does not have anyway, and caches")
		m.Forget(KeysOf(Asks())...)
		_, after := held()
		require.Equal(t, sum, after)
	}
}
