package mask_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/mask"
)

const begin, end = 1, 2

func TestMarksEncloseTurns(t *testing.T) {
	s, err := mask.FromMarks([]int32{10, begin, 11, 12, end, 13, begin, end, begin, 14, end, begin, 15, end, 16},
		mask.Marks{Begin: begin, End: end})
	require.NoError(t, err)
	wantMask(t, "response", s.Response(nil), "0110110")
	wantMask(t, "turn end", s.TurnEnd(nil), "0010110")
	require.Equal(t, 3, s.Turns(), "one pair of marks is empty")
	require.Equal(t, []mask.Kind{mask.Prompt, mask.Response, mask.Response, mask.Observation, mask.Response, mask.Response,
		mask.Observation}, s.Kinds(nil))
}

func TestOrphanMarksAreNamed(t *testing.T) {
	for _, c := range []struct {
		name string
		ids  []int32
		word string
	}{
		{"end first", []int32{7, end, begin, 8, end}, "position 1: end mark"},
		{"end twice", []int32{begin, 8, end, end}, "position 3: end mark"},
		{"begin twice", []int32{begin, 8, begin, 9, end}, "position 2: begin mark inside the turn begun at 0"},
		{"first never ended", []int32{begin, 8}, "position 0: the turn that begins here"},
		{"never ended", []int32{begin, 8, end, 7, begin, 9}, "position 4: the turn that begins here"},
	} {
		_, err := mask.FromMarks(c.ids, mask.Marks{Begin: begin, End: end})
		testkit.Error(t, err, mask.ErrOrphanMark, c.word)
	}
	for _, order := range []bool{false, true} {
		_, err := mask.FromMarks([]int32{1}, mask.Marks{Begin: 4, End: 4, PairByOrder: order})
		require.ErrorIs(t, err, mask.ErrOrphanMark, "equal marks")
	}
}

// TestPairByOrderLosesTurnsSilently shows what the compatibility mode does, and why it is
// not the default: with one missing begin mark, no turn is left.
func TestPairByOrderLosesTurnsSilently(t *testing.T) {
	ids := []int32{7, end, 8, begin, 9, end, 8, begin, 9, end}
	s, err := mask.FromMarks(ids, mask.Marks{Begin: begin, End: end, PairByOrder: true})
	require.NoError(t, err)
	require.Zero(t, s.Turns())
}

// TestPairByOrderRefusesWhatTheOriginalCannotDo: tokens would have to move in
// front of the row.
func TestPairByOrderRefusesWhatTheOriginalCannotDo(t *testing.T) {
	ids := []int32{end, 7, begin, 8, end}
	_, err := mask.FromMarks(ids, mask.Marks{Begin: begin, End: end, PairByOrder: true})
	require.ErrorIs(t, err, mask.ErrOrphanMark)
}

func TestPairByOrderKeepsWhatNeedsNoPairing(t *testing.T) {
	for name, ids := range map[string][]int32{"nothing": nil, "context": {5, 6}, "lone end": {5, end, 6}} {
		s, err := mask.FromMarks(ids, mask.Marks{Begin: begin, End: end, PairByOrder: true})
		require.NoError(t, err, name)
		require.Len(t, s.Tokens(), len(ids), name)
		require.Zero(t, s.Turns(), name)
	}
}
