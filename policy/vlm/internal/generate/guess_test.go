package generate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Guesses follow the last place of the longest last tokens, in a row's own text first.
func TestGuessesFollowWhatWasWritten(t *testing.T) {
	for _, c := range []struct {
		text, others, want []int32
		most               int
	}{
		{[]int32{1, 2, 3, 4, 1, 2}, nil, []int32{3, 4, 1}, 3},
		{[]int32{9, 1, 2, 3, 5, 1, 2, 4, 9, 1, 2}, nil, []int32{3, 5}, 2},  // three tokens are better than two
		{[]int32{8, 1, 2, 3, 7, 1, 2, 4, 6, 1, 2}, nil, []int32{4}, 1},     // the later of two
		{[]int32{1, 2, 1, 2, 1, 2}, nil, []int32{1, 2}, 7},                 // up to the end
		{[]int32{5, 6}, []int32{5, 6, 7, 8}, []int32{7, 8}, 3},             // from others
		{[]int32{5, 6, 9, 5, 6}, []int32{5, 6, 7, 8}, []int32{9, 5, 6}, 3}, // its own first
		{[]int32{1, 2, 3}, []int32{4, 3, 5}, nil, 3},                       // one token is too few
		{[]int32{1, 2, 3, 1, 2}, nil, nil, 0},                              // no room
		{[]int32{7}, []int32{7, 7}, nil, 3},
	} {
		require.Equal(t, c.want, guess(c.text, c.others, c.most), c)
	}
}

// Batches of larger models shrink to one row.
func TestFewestRows(t *testing.T) {
	require.Equal(t, []int{32, 8, 1, 32}, []int{fewestRows(false, 1<<21-1), fewestRows(false, 1<<24-1),
		fewestRows(false, 1<<24), fewestRows(true, 1)})
}
