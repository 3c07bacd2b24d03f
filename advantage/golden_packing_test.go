package advantage

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

func TestGoldenPacking(t *testing.T) {
	golden.Each(t, "algorithms_next/packing.json", func(c *golden.Run) {
		switch {
		case c.Expected["episodes"] != nil:
			episodeCase(c)
		case c.HasTag("value_mask"):
			got := MaskFromReturns(nil, narrow(c.Flat(c.Inputs, "returns")))
			c.Equal("value_mask", got, bools(c.Flat(c.Expected, "value_mask")))
		}
	})
}

func episodeCase(c *golden.Run) {
	c.Helper()
	mask, width := flat(c, c.Inputs, "response_mask")
	b := Batch{Rewards: make([]float32, len(mask)), Loss: bools(mask)}
	// In alphabetical order, in which the original lists episodes.
	names, in := golden.Input[[]string](c, "episode_id"), Interner{}
	in.IDs(nil, slices.Sorted(slices.Values(names))...)
	b.Trajectory = in.IDs(nil, names...)
	golden.Decode(c, c.Inputs, "turn_idx", &b.Turn)
	for i := 0; i <= len(mask); i += width {
		b.Offsets = append(b.Offsets, i)
	}
	got, err := b.Episodes()
	require.NoError(c, err)
	c.Equal("episodes", fmt.Sprint(got), fmt.Sprint(golden.Expected[[][]int](c, "episodes")))
	id, err := b.TurnIDs(nil)
	require.NoError(c, err)
	c.Equal("turn_id", id, ints(c.Flat(c.Expected, "turn_id")))
}
