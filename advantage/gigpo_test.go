package advantage

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// twoEpisodes of one group, two turns each. Rewards 1, 2 and 0, 5; the first
// turns share state 3, the second ones do not.
func twoEpisodes() *Batch {
	return &Batch{
		Offsets:    []int{0, 3, 6},
		Rewards:    []float32{1, 9, 2, 0, 9, 5},
		Loss:       []bool{true, false, true, true, false, true},
		Group:      []int{1, 1},
		Trajectory: []int{1, 2},
		States:     []uint64{3, 4, 3, 5},
	}
}

// TestGiGPOByHand: scores 3 and 5 have mean 4 and std √2. With γ 0.5 the first
// turns return 2 and 2.5, mean 2.25 and std √2/4.
func TestGiGPOByHand(t *testing.T) {
	std := math.Sqrt2
	for _, c := range []struct {
		est  GiGPO
		want []float64
	}{
		{GiGPO{Gamma: 0.5, StepWeight: 2}, []float64{-1 - 0.5, 0, -1, 1 + 0.5, 0, 1}},
		{GiGPO{Gamma: 0.5, StepWeight: 0}, []float64{-1, 0, -1, 1, 0, 1}},
		{GiGPO{Gamma: 0, StepWeight: 1}, []float64{-1 + 0.5, 0, -1, 1 - 0.5, 0, 1}},
		{GiGPO{Gamma: 0.5, StepWeight: 2, Epsilon: 0.5, NormByStd: true}, []float64{
			-1/(std+0.5) - 0.5/(std/4+0.5), 0, -1 / (std + 0.5),
			1/(std+0.5) + 0.5/(std/4+0.5), 0, 1 / (std + 0.5),
		}},
	} {
		out := run(t, c.est, twoEpisodes())
		require.Equal(t, out.Advantages, out.Returns, "%+v", c.est)
		near(t, "gigpo", convert[float64](out.Advantages), c.want)
	}
}

// TestGiGPOStatesCountPerGroup: equal keys in different groups are different
// states.
func TestGiGPOStatesCountPerGroup(t *testing.T) {
	b := twoEpisodes()
	b.Group = []int{1, 2}
	out := run(t, GiGPO{Gamma: 0.5, StepWeight: 2}, b)
	near(t, "gigpo", []float64{float64(out.Advantages[0]), float64(out.Advantages[3])}, []float64{3, 5})
}

func TestGiGPONeedsStates(t *testing.T) {
	est := GiGPO{Gamma: 1, StepWeight: 1, NormByStd: true}
	for _, c := range []struct {
		name   string
		states []uint64
		want   error
	}{
		{"none", nil, ErrNoGroup},
		{"too few", []uint64{1, 2, 3}, ErrLength},
		{"too many", []uint64{1, 2, 3, 4, 5}, ErrLength},
	} {
		b := twoEpisodes()
		b.States = c.states
		var out Result
		require.ErrorIs(t, est.Estimate(&out, b), c.want, c.name)
	}
}

// TestHistoriesAsLongAsTheLongestEpisodeCount: the second turns of two of three episodes have equal pairs of states,
// too.
// At one state their returns 1, 0 and 5 differ from the mean by -1, -2 and 3, at the pair by 0.5 and -0.5.
func TestHistoriesAsLongAsTheLongestEpisodeCount(t *testing.T) {
	all := []bool{true, true, true, true, true, true}
	b := &Batch{
		Offsets: []int{0, 2, 4, 6}, Rewards: []float32{0, 1, 0, 0, 0, 5}, Loss: all, TurnEnd: all, Group: make([]int, 3),
		States: []uint64{1, 2, 1, 2, 3, 2},
	}
	got := run(t, HGPO{Gamma: 1, History: 1}, b).Advantages
	require.InDeltaSlice(t, []float32{0.5, -0.25, -0.5, -1.25, 0, 3}, got, 1e-5)
}
