package advantage

import (
	"errors"
	"math"
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
		if want := 2.0 / 3 * 2 / (2 + eps); math.Abs(float64(out.Advantages[0])-want) > 1e-5 ||
			math.Abs(float64(out.Advantages[1])+want) > 1e-5 {
			t.Errorf("ε %v: advantages %v, want ±%v", eps, out.Advantages, want)
		}
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
		if got := run(t, c.l, b).Advantages[1]; math.Abs(float64(got)-0.4) > 1e-6 {
			t.Errorf("%s: advantage %v, want (1 − 0.5·0.4) − 0.4", name, got)
		}
	}
}

// TestTheLargestExponentIsAllowed.
func TestTheLargestExponentIsAllowed(t *testing.T) {
	for alpha, allowed := range map[float64]bool{0: true, 8: true, 8.5: false} {
		if err := (HGPO{Alpha: alpha}).Estimate(new(Result), new(Batch)); errors.Is(err, ErrParameter) == allowed {
			t.Errorf("alpha %v: %v", alpha, err)
		}
	}
}
