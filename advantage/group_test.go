package advantage

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// scored is a batch of rows with two tokens each, the second written by the
// model and rewarded, in the given groups.
func scored(scores []float32, groups ...int) *Batch {
	b := &Batch{Offsets: []int{0}, Group: groups}
	for _, s := range scores {
		b.Rewards = append(b.Rewards, 0, s)
		b.Loss = append(b.Loss, false, true)
		b.Offsets = append(b.Offsets, len(b.Rewards))
	}
	return b
}

// rowAdvantages checks that context gets 0 and that returns are the advantages,
// and returns one number per row.
func rowAdvantages(t *testing.T, est Estimator, b *Batch) []float64 {
	t.Helper()
	out := run(t, est, b)
	require.Equal(t, out.Advantages, out.Returns, "%T", est)
	var rows []float64
	for i := range b.Rows() {
		lo, hi := b.Row(i)
		row := math.NaN()
		for k := lo; k < hi; k++ {
			if b.Loss[k] {
				row = float64(out.Advantages[k])
			} else {
				require.Zero(t, out.Advantages[k], "%T: row %d: context", est, i)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func near(t *testing.T, what string, got, want []float64) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for i := range want {
		// float32 storage keeps seven digits.
		require.InDelta(t, want[i], got[i], 1e-6*max(1, math.Abs(want[i])), "%s: row %d", what, i)
	}
}

// TestGroupEstimatorsByHand has numbers worked out on paper, of estimators and settings that no recording has, beside
// those of GRPO. Group 7 scores 1, 2 and 6 (mean 3, variance 7), group 9 scores 4 alone.
func TestGroupEstimatorsByHand(t *testing.T) {
	std, centred := math.Sqrt(7)+1e-6, []float64{-2, 4, -1, 3}
	for _, c := range []struct {
		est  Estimator
		want []float64
	}{
		{GRPO{NormByStd: true}, []float64{-2 / std, 4 / (1 + 1e-6), -1 / std, 3 / std}},
		{GRPO{}, centred}, {GPG{}, centred}, {ReinforcePlusPlusBaseline{}, centred},
		{OPO{}, centred},  // of equal lengths
		{GDPO{}, centred}, // without components
	} {
		near(t, fmt.Sprintf("%T", c.est), rowAdvantages(t, c.est, scored([]float32{1, 4, 2, 6}, 7, 9, 7, 7)), c.want)
	}
}

func TestReinforceBaselineWhitensOverTokens(t *testing.T) {
	// Centred scores −1 and 1, the second row with two tokens: mean 1/3,
	// variance ((4/3)² + 2·(2/3)²)/2 = 4/3.
	b := &Batch{
		Offsets: []int{0, 1, 3}, Rewards: []float32{1, 1, 2},
		Loss: []bool{true, true, true}, Group: []int{0, 0},
	}
	std := math.Sqrt(4.0 / 3)
	near(t, "reinforce++ baseline", rowAdvantages(t, ReinforcePlusPlusBaseline{Whiten: true}, b),
		[]float64{(-1 - 1.0/3) / std, (1 - 1.0/3) / std})
}

func TestOPOWeighsByLength(t *testing.T) {
	// Scores 1 and 5 with 1 and 3 tokens under the mask: baseline 16/4.
	b := &Batch{
		Offsets: []int{0, 2, 6}, Rewards: []float32{0, 1, 0, 0, 0, 5},
		Loss: []bool{false, true, false, true, true, true}, Group: []int{3, 3},
	}
	near(t, "opo", rowAdvantages(t, OPO{}, b), []float64{-3, 1})
	clear(b.Loss)
	require.Zero(t, slices.Max(run(t, OPO{}, b).Advantages), "without any token under the mask")
	require.Zero(t, slices.Min(run(t, OPO{}, b).Advantages), "without any token under the mask")
}

func TestGPGMakesUpForZeroScores(t *testing.T) {
	// Two of three rows have a score: alpha 3/2.
	near(t, "gpg", rowAdvantages(t, GPG{}, scored([]float32{0, 2, 4}, 1, 1, 2)), []float64{-1.5, 1.5, 6})
	near(t, "gpg, nothing scored", rowAdvantages(t, GPG{}, scored([]float32{0, 0}, 1, 1)), []float64{0, 0})
}

func TestPassKRewardsTheLeadOfTheBest(t *testing.T) {
	b := scored([]float32{1, 5, 2, 3, 3}, 4, 4, 4, 8, 8)
	near(t, "pass@k", rowAdvantages(t, PassK{}, b), []float64{0, 3, 0, 0, 0})
	// Scores 1, 5, 2 have mean 8/3 and squared distances 78/9.
	near(t, "pass@k", rowAdvantages(t, PassK{Epsilon: 0.25, NormByStd: true}, b),
		[]float64{0, 3 / (math.Sqrt(78.0/18) + 0.25), 0, 0, 0})

	for k, want := range map[int][]float64{0: {0, 1, 0}, 2: {0, 1, 0}, 3: {0, 0, 0}} {
		near(t, "a group too small", rowAdvantages(t, PassK{K: k}, scored([]float32{1, 2, 3}, 1, 1, 2)), want)
	}
	var out Result
	for _, k := range []int{-1, 1} {
		err := (PassK{K: k, NormByStd: true}).Estimate(&out, scored([]float32{1, 2}, 1, 1))
		require.ErrorIs(t, err, ErrParameter, "k %d", k)
	}
}

// TestBadComponentsAreRefused, by column, component and row.
func TestBadComponentsAreRefused(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		components [][]float32
		weights    []float64
		kind       error
		says       string
	}{
		{[][]float32{{1, 2}, {1}}, nil, ErrLength, "components[1]: length 1"},
		{[][]float32{{1, 2}}, []float64{1, 2}, ErrLength, "component_weights: 2 for 1 components"},
		{[][]float32{{1, 2}}, []float64{math.Inf(1)}, ErrNotFinite, "component_weights[0]: +Inf"},
		{[][]float32{{1, 2}, {1, nan}}, nil, ErrNotFinite, "components[1]: row 1: NaN"},
	} {
		b := scored([]float32{1, 2}, 1, 1)
		b.Components, b.ComponentWeights = c.components, c.weights
		refuse(t, c.says, GDPO{}.Estimate(new(Result), b), c.kind, c.says)
	}
	b := scored([]float32{1, 2}, 1, 1)
	b.Components = [][]float32{{1, nan}, {2, float32(math.Inf(1))}}
	refuse(t, "infinite", GDPO{OverRows: true}.Estimate(new(Result), b), ErrNotFinite, "components[1]: row 1: +Inf")
}

// TestGraphGPOMeasuresTheWayToSuccess, in steps relative to the way before, which no recording has: from state 1, one
// turn leads to 2, which is one from success, the other to 3, from which nothing leads there.
func TestGraphGPOMeasuresTheWayToSuccess(t *testing.T) {
	b := &Batch{
		Offsets: []int{0, 2, 3}, Rewards: make([]float32, 3), Group: []int{7, 7}, Trajectory: []int{1, 2},
		TurnEnd: []bool{true, true, true}, States: []uint64{1, 2, 1}, Next: []uint64{2, SuccessState, 3},
	}
	// Distances: success 0, state 2: 1, state 1: 2, state 3: 3. Nearer by 1, by 1, by −1: exponents 0, 0, 2.
	got := run(t, GraphGPO{Gamma: 0.5, StepWeight: 2, Relative: true}, b).Advantages
	near(t, "relative", convert[float64](got), []float64{7.5, 0, -7.5})
}

// TestPassKSumsLeadsOverAllChoices compares with a sum over every choice of k rows.
func TestPassKSumsLeadsOverAllChoices(t *testing.T) {
	for _, scores := range [][]float32{{2, 7, 1, 7, 3, 0}, {1, 2, 4, 8, 16}, {3, 3}, {5, 5, 5}} {
		n := len(scores)
		for k := 2; k <= n; k++ {
			want, choices := make([]float64, n), 0.0
			for set := range 1 << n {
				var in []int
				for i := range n {
					if set>>i&1 == 1 {
						in = append(in, i)
					}
				}
				if len(in) != k {
					continue
				}
				choices++
				slices.SortFunc(in, func(a, b int) int { return cmp.Compare(scores[a], scores[b]) })
				want[in[k-1]] += float64(scores[in[k-1]] - scores[in[k-2]])
			}
			for i := range want {
				want[i] /= choices
			}
			near(t, fmt.Sprint(scores, k), rowAdvantages(t, PassK{K: k}, scored(scores, make([]int, n)...)), want)
		}
	}
}

// TestEqualScoresGiveZeroAdvantages: sums of float32 rewards in float64 are equal when
// the rewards are, so no rounding error is amplified by a tiny deviation.
func TestEqualScoresGiveZeroAdvantages(t *testing.T) {
	b := scored(slices.Repeat([]float32{10.9}, 7), make([]int, 7)...)
	for _, est := range []Estimator{GRPO{NormByStd: true}, RLOO{}, TrajectoryGRPO{NormByStd: true}, PassK{NormByStd: true},
		OPO{}} {
		require.InDeltaSlice(t, make([]float64, 7), rowAdvantages(t, est, b), 1e-8, "%T", est)
	}
}

// TestGroupShiftsCancel: adding to all scores of a group changes nothing.
func TestGroupShiftsCancel(t *testing.T) {
	a := []float32{1, 2, 6, 4.5}
	b := []float32{9, 10, 14, 12.5}
	for _, est := range []Estimator{GRPO{NormByStd: true}, GRPO{}, RLOO{}, OPO{}, PassK{NormByStd: true},
		TrajectoryGRPO{NormByStd: true}, ReinforcePlusPlusBaseline{Whiten: true}} {
		near(t, "shifted scores", rowAdvantages(t, est, scored(b, 1, 1, 1, 1)), rowAdvantages(t, est, scored(a, 1, 1, 1, 1)))
	}
}
