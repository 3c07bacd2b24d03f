package advantage

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBiLevelCountsTurnEndsInContext: a turn end outside the mask is a turn with its
// reward and value, although no token is credited for it.
//
// Turn ends at 1, 2, 3 and 5; the mask has 0, 1 and 5. With γH 0.5 and λ 0.5:
//
//	H5 = 4 − 1 = 3
//	H3 = 2 + 0.5·1 − 2 + 0.25·3 = 1.25
//	H2 = 1 + 0.5·2 − 3 + 0.25·1.25 = −0.6875
//	H1 = 8 + 0.5·3 − 4 + 0.25·(−0.6875) = 5.328125
//	A0 = 0 + 0.5·4 − 6 + 0.25·5.328125 = −2.66796875
func TestBiLevelCountsTurnEndsInContext(t *testing.T) {
	b := &Batch{
		Offsets: []int{0, 6},
		Rewards: []float32{0, 8, 1, 2, 0, 4},
		Values:  []float32{6, 4, 3, 2, 7, 1},
		Loss:    []bool{true, true, false, false, false, true},
		TurnEnd: []bool{false, true, true, true, false, true},
	}
	out := run(t, BiLevel{Gamma: 0.5, Lambda: 0.5, TurnGamma: 0.5}, b)
	require.Equal(t, []float32{-2.66796875, 5.328125, 0, 0, 0, 3}, out.Advantages)
	require.Equal(t, []float32{6 - 2.66796875, 4 + 5.328125, 0, 0, 0, 1 + 3}, out.Returns)
}

// TestTurnWiseGivesTurnsTheirNextEnd on the same row: tokens in the mask get the
// advantage of the next turn end, those after the last one 0, and returns are at turn ends,
// inside and outside the mask.
func TestTurnWiseGivesTurnsTheirNextEnd(t *testing.T) {
	b := &Batch{
		Offsets: []int{0, 7},
		Rewards: []float32{0, 8, 1, 2, 0, 4, 9},
		Values:  []float32{6, 4, 3, 2, 7, 1, 9},
		Loss:    []bool{true, true, false, false, true, true, true},
		TurnEnd: []bool{false, true, true, true, false, true, false},
	}
	out := run(t, TurnWise{TurnGamma: 0.5, Lambda: 0.5}, b)
	require.Equal(t, []float32{5.328125, 5.328125, 0, 0, 3, 3, 0}, out.Advantages)
	require.Equal(t, []float32{0, 9.328125, 2.3125, 3.25, 0, 4, 0}, out.Returns)
}
