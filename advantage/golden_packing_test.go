package advantage

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

func TestGoldenPacking(t *testing.T) {
	const file = "algorithms_next/packing.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		switch {
		case c.Expected["episodes"] != nil:
			episodeCase(t, tally, c)
		case c.HasTag("value_mask"):
			returns, _ := flat(t, c.Inputs, "returns")
			want, _ := flat(t, c.Expected, "value_mask")
			same(t, tally, c.Name, MaskFromReturns(nil, narrow(returns)), bools(want))
		default:
			continue
		}
		tally.Case()
	}
}

func episodeCase(t *testing.T, tally *golden.Tally, c golden.Case) {
	t.Helper()
	mask, width := flat(t, c.Inputs, "response_mask")
	b := Batch{Rewards: make([]float32, len(mask)), Loss: bools(mask), Trajectory: sortedIDs(t, c.Inputs, "episode_id")}
	golden.Decode(t, c.Inputs, "turn_idx", &b.Turn)
	for i := 0; i <= len(mask); i += width {
		b.Offsets = append(b.Offsets, i)
	}
	var want [][]int
	golden.Need(t, c.Expected, "episodes", &want)
	got, err := b.Episodes()
	require.NoError(t, err, c.Name)
	golden.Equal(t, tally, c.Name+" episodes", fmt.Sprint(got), fmt.Sprint(want))
	turns, _ := flat(t, c.Expected, "turn_id")
	id, err := b.TurnIDs(nil)
	require.NoError(t, err, c.Name)
	same(t, tally, c.Name+" turn_id", id, ints(turns))
}

// sortedIDs numbers names in alphabetical order, in which the original lists
// episodes.
func sortedIDs(t testing.TB, fields map[string]json.RawMessage, name string) []int {
	t.Helper()
	var names []string
	golden.Need(t, fields, name, &names)
	var in Interner
	in.IDs(nil, slices.Sorted(slices.Values(names))...)
	return in.IDs(nil, names...)
}
