package advantage

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDistillRefusesListsOfOtherLengths, whichever it is.
func TestDistillRefusesListsOfOtherLengths(t *testing.T) {
	for wrong := range 4 {
		n := []int{3, 3, 3, 3}
		n[wrong] = 2
		_, err := Distill(make([]float32, n[0]), make([]float32, n[1]), make([]float32, n[2]), make([]bool, n[3]),
			[]int{0, 3}, 1, 0)
		require.ErrorIs(t, err, ErrLength, "list %d", wrong)
	}
	_, err := Distill(make([]float32, 3), make([]float32, 3), make([]float32, 3), make([]bool, 3), []int{0, 2}, 1, 0)
	require.ErrorContains(t, err, "offsets")
	adv := []float32{0, 0, 0}
	_, err = Distill(adv, make([]float32, 3), []float32{0, 0, 3e38}, []bool{true, true, true}, []int{0, 1, 3}, 2, 0)
	refuse(t, "overflow", err, ErrNotFinite, "row 1, position 1: +Inf")
}

// TestDistillOfNothing: no rows, and no token under the mask, have a mean of 0.
func TestDistillOfNothing(t *testing.T) {
	for _, n := range []int{0, 1} {
		x := make([]float32, n)
		kl, err := Distill(x, make([]float32, n), make([]float32, n), make([]bool, n), []int{0, n}[:n+1], 1, 0)
		require.NoError(t, err)
		require.Zero(t, kl)
	}
}

// TestHGPOOfOneEpisode: alone in its group it is compared with 0, with weight 1; without Base, rewards off the mask are
// not read.
func TestHGPOOfOneEpisode(t *testing.T) {
	for _, score := range []float32{0, 1, 2} {
		b := &Batch{Offsets: []int{0, 2}, Rewards: []float32{0, score}, Loss: []bool{false, true}, TurnEnd: []bool{false, true},
			Group: []int{1}, Trajectory: []int{1}, Turn: []int{0}, States: []uint64{7}}
		out := run(t, HGPO{Gamma: 1, Base: true, Epsilon: 0.25}, b)
		near(t, "with the episode", []float64{float64(out.Advantages[1])}, []float64{float64(score) / 1.25})
		require.Equal(t, out.Advantages, out.Returns)
	}
	b := &Batch{Offsets: []int{0, 2}, Rewards: []float32{3, 1}, Loss: []bool{false, true}, TurnEnd: []bool{false, true},
		Group: []int{1}, Trajectory: []int{1}, Turn: []int{0}, States: []uint64{7}}
	require.Equal(t, 1, run(t, HGPO{Gamma: 1}, b).Unread)
	require.Zero(t, run(t, HGPO{Gamma: 1, Base: true}, b).Unread)
}

// TestEqualReturnsAreAverageUpToRounding, which grows with scores above 1; such turns have no level.
func TestEqualReturnsAreAverageUpToRounding(t *testing.T) {
	for _, c := range []struct {
		score, off float64
		average    bool
	}{{0.5, 2e-7, true}, {0.5, 3e-7, false}, {1e6, 0.2, true}, {1e6, 0.3, false}} {
		g := groups{of: []int{0}, mean: []float64{c.score + c.off}}
		require.Equal(t, c.average, g.average(0, c.score), "%+v", c)
	}
	s := steps{returns: []float64{1, 1 + 1e-9, 3}, sum: make([]float64, 3), weight: make([]float64, 3)}
	s.groups.assign([]int{0, 0, 1})
	s.groups.score(s.returns)
	s.addLevel(2, false, 0)
	require.Equal(t, make([]float64, 3), s.weight)
}

// TestReusedMemoryOfGroupsHoldsNoOldValues: rows with components, and the farthest state of a group.
func TestReusedMemoryOfGroupsHoldsNoOldValues(t *testing.T) {
	nan := float32(math.NaN())
	full, partly := scored([]float32{1, 2, 3}, 1, 1, 1), scored([]float32{1, 2, 3}, 1, 1, 1)
	full.Components, partly.Components = [][]float32{{1, 2, 4}}, [][]float32{{1, 2, nan}}
	graph := func(states, next []uint64) *Batch {
		on := []bool{true, true, true}
		return &Batch{Offsets: []int{0, 2, 3}, Rewards: make([]float32, 3), Group: []int{7, 7}, Trajectory: []int{1, 2},
			TurnEnd: on, States: states, Next: next}
	}
	far := graph([]uint64{1, 2, 1}, []uint64{2, SuccessState, 3})
	short := graph([]uint64{2, 1, 1}, []uint64{2, SuccessState, 3})
	for _, c := range []struct {
		est           Estimator
		first, second *Batch
	}{{GDPO{OverRows: true}, full, partly}, {GraphGPO{Gamma: 0.5, StepWeight: 2}, far, short}} {
		var used Result
		require.NoError(t, c.est.Estimate(&used, c.first))
		require.NoError(t, c.est.Estimate(&used, c.second))
		want := run(t, c.est, c.second)
		require.Equal(t, want.Advantages, used.Advantages)
		require.Equal(t, want.Advantages, want.Returns)
		require.NotZero(t, slices.Max(want.Advantages))
	}
	alone := scored([]float32{1, 2}, 1, 1)
	alone.Components = [][]float32{{1, nan}}
	near(t, "a component of one row", rowAdvantages(t, GDPO{OverRows: true}, alone), []float64{0, 0})
}

// TestScoresThatCancelHaveNoMean: 0.3 − 0.1 − 0.2 in float32 is 7e-9, which is not a success. Equal scores and small
// means have one.
func TestScoresThatCancelHaveNoMean(t *testing.T) {
	for _, c := range []struct {
		scores []float32
		want   []float64
	}{
		{[]float32{0.3, -0.1, -0.2}, []float64{0, 0, 0}},
		{[]float32{1e-9, 1e-9, 1e-9}, []float64{0, 0, 0}},
		{[]float32{1e-9, 3e-9, 2e-9}, []float64{-0.5, 0.5, 0}},
		{[]float32{1, 0, 0, -0.996}, []float64{999, -1, -1, -997}},
	} {
		got := rowAdvantages(t, MaxRL{Guarded: true}, scored(c.scores, make([]int, len(c.scores))...))
		for i, want := range c.want {
			require.InDelta(t, want, got[i], 1e-6+1e-4*math.Abs(want), "%v", c.scores)
		}
	}
}

// TestBaselinesStartAtZero if the batch has none.
func TestBaselinesStartAtZero(t *testing.T) {
	near(t, "rae", rowAdvantages(t, RAE{Decay: 0.5}, scored([]float32{2, 4}, 1, 1)), []float64{2, 3})
}

// TestBatchesOfOneTokenNeedTheirColumns.
func TestBatchesOfOneTokenNeedTheirColumns(t *testing.T) {
	b := &Batch{Offsets: []int{0, 1}, Rewards: []float32{1}, Values: []float32{1}, Loss: []bool{true}, Group: []int{1}}
	refuse(t, "masked_gae", Masked{}.Estimate(new(Result), b), ErrNoMask, "gae")
	refuse(t, "otb", OptimalBaseline{}.Estimate(new(Result), b), ErrNoGroup, "log_probs")
	b.LogProbs = []float32{-1}
	refuse(t, "otb", OptimalBaseline{}.Estimate(new(Result), b), ErrNoGroup, "sum_pi_squared")
}

// TestHGPOAddsEpsilonToTheDeviation: of two turns whose rewards differ by 4ε, half the difference is the
// deviation, and each of them is half of it away from the mean, also where ε is large. The weight is 2.
func TestHGPOAddsEpsilonToTheDeviation(t *testing.T) {
	for _, eps := range []float64{1e-6, 0.1, 0.5} {
		b := &Batch{
			Offsets: []int{0, 1, 2}, Rewards: []float32{float32(4 * eps), 0}, Attention: []bool{true, true},
			Loss: []bool{true, true}, TurnEnd: []bool{true, true},
			Group: []int{1, 1}, Trajectory: []int{1, 2}, Turn: []int{0, 0}, States: []uint64{7, 7}, Next: []uint64{8, 8},
		}
		out := run(t, HGPO{Gamma: 1, Alpha: 1, NormByStd: true, Epsilon: eps}, b)
		want := 2.0 / 3 * 2 / (2 + eps)
		require.InDeltaSlice(t, []float64{want, -want}, out.Advantages, 1e-5, "ε %v", eps)
	}
}

// TestLengthsOfOneAreNotLonger: the longest output, input and turn count of a group are at least 1, not more, so
// that an episode of length 1 beside one of length 0 pays the whole weight: 0.4 of the mean score 0.5.
func TestLengthsOfOneAreNotLonger(t *testing.T) {
	for name, c := range map[string]struct {
		l     LengthGRPO
		short []bool // tokens of the episode of length 0: written by the model or not
	}{
		"output": {LengthGRPO{OutputWeight: 0.4}, []bool{false}},
		"input":  {LengthGRPO{InputWeight: 0.4}, []bool{true}},
		"turns":  {LengthGRPO{TurnWeight: 0.4}, []bool{false}},
	} {
		b := &Batch{
			Offsets: []int{0, 2, 3}, Rewards: []float32{0, 1, 0}, Attention: []bool{true, true, true},
			Loss: []bool{false, true, c.short[0]}, TurnEnd: []bool{false, true, c.short[0]},
			Group: []int{1, 1}, Trajectory: []int{1, 2}, Turn: []int{0, 0},
		}
		require.InDelta(t, (1-0.5*0.4)-0.4, run(t, c.l, b).Advantages[1], 1e-6, name)
	}
}

// TestTheLargestExponentIsAllowed.
func TestTheLargestExponentIsAllowed(t *testing.T) {
	for alpha, allowed := range map[float64]bool{0: true, 8: true, 8.5: false} {
		err := (HGPO{Alpha: alpha}).Estimate(new(Result), new(Batch))
		require.Equal(t, allowed, !errors.Is(err, ErrParameter), "alpha %v: %v", alpha, err)
	}
}
