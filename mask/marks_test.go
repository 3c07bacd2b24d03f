package mask_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/mask"
)

const begin, end = 1, 2

func TestMarksEncloseTurns(t *testing.T) {
	s, err := mask.FromMarks([]int32{10, begin, 11, 12, end, 13, begin, end, begin, 14, end, begin, 15, end, 16},
		mask.Marks{Begin: begin, End: end})
	require.NoError(t, err)
	wantMask(t, "response", s.Response(nil), "0110110")
	wantMask(t, "turn end", s.TurnEnd(nil), "0010110")
	if s.Turns() != 3 {
		t.Errorf("%d turns, want 3: one pair of marks is empty", s.Turns())
	}
	want := []mask.Kind{mask.Prompt, mask.Response, mask.Response, mask.Observation, mask.Response, mask.Response,
		mask.Observation}
	for i, k := range s.Kinds(nil) {
		require.Equal(t, want[i], k, "position %d", i)
	}
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
		if !errors.Is(err, mask.ErrOrphanMark) || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: got %v, want ErrOrphanMark with %q", c.name, err, c.word)
		}
	}
	_, err := mask.FromMarks([]int32{1}, mask.Marks{Begin: 4, End: 4})
	require.ErrorIs(t, err, mask.ErrOrphanMark, "equal marks")
}
