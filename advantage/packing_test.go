package advantage

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInternerNumbersByAppearance(t *testing.T) {
	var in Interner
	require.Equal(t, []int{5, 0, 1, 0, 2}, in.IDs([]int{5}, "b", "a", "b", ""))
	require.Equal(t, []int{1, 3}, []int{in.ID("a"), in.Len()})
}

// TestTurnEndsSeparateAdjacentTurns: without them, adjacent turns are one.
func TestTurnEndsSeparateAdjacentTurns(t *testing.T) {
	b := &Batch{
		Offsets: []int{0, 5, 7}, Rewards: make([]float32, 7),
		Loss:       []bool{true, true, true, false, true, true, true},
		Trajectory: []int{1, 1}, Turn: []int{0, 1},
	}
	ids, err := b.TurnIDs(nil)
	require.NoError(t, err)
	require.Equal(t, []int32{0, 0, 0, -1, 1, 2, 2}, ids)
	b.TurnEnd = []bool{true, false, true, true, true, true, true}
	ids, err = b.TurnIDs([]int32{8})
	require.NoError(t, err)
	require.Equal(t, []int32{8, 0, 1, 1, -1, 2, 3, 4}, ids, "appended")
}

// TestAdjacentTurnsHaveSeparateRewards for the estimators over turns.
func TestAdjacentTurnsHaveSeparateRewards(t *testing.T) {
	b := &Batch{
		Offsets: []int{0, 4}, Rewards: []float32{1, 2, 4, 8}, Values: []float32{0.5, 7, 0.25, 7},
		Loss: []bool{true, true, true, true}, TurnEnd: []bool{false, true, false, true},
	}
	out := run(t, TrajectoryTurn{Gamma: 0.5, Lambda: 0.5}, b)
	second := 12 - 0.25
	first := 3 + 0.5*0.25 - 0.5 + 0.25*second
	require.InDeltaSlice(t, []float64{first, first, second, second}, out.Advantages, 1e-6)
	b.TurnEnd = nil
	one := run(t, TrajectoryTurn{Gamma: 0.5, Lambda: 0.5}, b).Advantages
	require.Equal(t, slices.Repeat([]float32{14.5}, 4), one, "without turn ends")
}

func TestBatchKnowsItsSize(t *testing.T) {
	var b Batch
	require.Zero(t, b.Rows()+b.Tokens())
	require.NoError(t, b.Check())
	b = *good()
	lo, hi := b.Row(2)
	require.Equal(t, []int{6, b.Offsets[2], b.Offsets[3]}, []int{b.Rows(), lo, hi})
	b.Reset()
	require.Zero(t, b.Rows()+b.Tokens()+len(b.Values)+len(b.Attention)+len(b.Loss)+len(b.GAE)+len(b.TurnEnd)+
		len(b.Group)+len(b.Trajectory)+len(b.Turn)+len(b.Baselines)+len(b.States))
}

// TestEmptyBatchesAreNoProblem for estimators that do not whiten.
func TestEmptyBatchesAreNoProblem(t *testing.T) {
	onceEach(t, func(t *testing.T, spec Spec, est Estimator) {
		for _, b := range []*Batch{{}, {Offsets: []int{0}}} {
			var out Result
			if err := est.Estimate(&out, b); spec.Whitens {
				require.ErrorIs(t, err, ErrEmptyMask)
			} else {
				require.NoError(t, err)
			}
		}
	})
}
