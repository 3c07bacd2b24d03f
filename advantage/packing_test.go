package advantage

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInternerNumbersByAppearance(t *testing.T) {
	var in Interner
	got, want := in.IDs([]int{5}, "b", "a", "b", ""), []int{5, 0, 1, 0, 2}
	require.Equal(t, want, got)
	if in.ID("a") != 1 || in.Len() != 3 {
		t.Errorf("a is %d of %d", in.ID("a"), in.Len())
	}
}

// TestTurnEndsSeparateAdjacentTurns: without them, adjacent turns are one.
func TestTurnEndsSeparateAdjacentTurns(t *testing.T) {
	b := &Batch{
		Offsets: []int{0, 5, 7}, Rewards: make([]float32, 7),
		Loss:       []bool{true, true, true, false, true, true, true},
		Trajectory: []int{1, 1}, Turn: []int{0, 1},
	}
	ids := func(want ...int32) {
		t.Helper()
		if got, err := b.TurnIDs(nil); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	ids(0, 0, 0, -1, 1, 2, 2)
	b.TurnEnd = []bool{true, false, true, true, true, true, true}
	ids(0, 1, 1, -1, 2, 3, 4)
	if got, err := b.TurnIDs([]int32{8}); err != nil || len(got) != 8 || got[0] != 8 || got[7] != 4 {
		t.Errorf("appending: got %v, %v", got, err)
	}
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
	for i, want := range []float64{first, first, second, second} {
		if got := float64(out.Advantages[i]); math.Abs(got-want) > 1e-6 {
			t.Errorf("position %d: %v, want %v", i, got, want)
		}
	}
	b.TurnEnd = nil
	one := run(t, TrajectoryTurn{Gamma: 0.5, Lambda: 0.5}, b).Advantages
	if one[0] != 14.5 || one[3] != 14.5 {
		t.Errorf("without turn ends: %v, want 14.5 throughout", one)
	}
}

func TestBatchKnowsItsSize(t *testing.T) {
	var b Batch
	if b.Rows() != 0 || b.Tokens() != 0 || b.Check() != nil {
		t.Errorf("the zero batch has %d rows and %d tokens, %v", b.Rows(), b.Tokens(), b.Check())
	}
	b = *good()
	lo, hi := b.Row(2)
	if b.Rows() != 6 || lo != b.Offsets[2] || hi != b.Offsets[3] {
		t.Errorf("%d rows, row 2 is [%d, %d)", b.Rows(), lo, hi)
	}
	b.Reset()
	if b.Rows() != 0 || b.Tokens() != 0 || len(b.Values)+len(b.Attention)+len(b.Loss)+len(b.GAE)+len(b.TurnEnd)+
		len(b.Group)+len(b.Trajectory)+len(b.Turn)+len(b.Baselines)+len(b.States) != 0 {
		t.Errorf("after Reset: %+v", b)
	}
}

// TestEmptyBatchesAreNoProblem for estimators that do not whiten.
func TestEmptyBatchesAreNoProblem(t *testing.T) {
	onceEach(t, func(t *testing.T, spec Spec, est Estimator) {
		for _, b := range []*Batch{{}, {Offsets: []int{0}}} {
			var out Result
			err := est.Estimate(&out, b)
			if spec.Whitens != errors.Is(err, ErrEmptyMask) || !spec.Whitens && err != nil {
				t.Errorf("got %v", err)
			}
		}
	})
}
