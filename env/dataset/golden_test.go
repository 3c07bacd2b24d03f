package dataset

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// TestGoldenSeedsAndParts compares with seeds and buckets recorded from the original
// system's functions; see algorithms_next/README.md.
func TestGoldenSeedsAndParts(t *testing.T) {
	golden.Each(t, "algorithms_next/run_control.json", func(c *golden.Run) {
		switch {
		case c.HasTag("seed_directive"), c.HasTag("seed_list"):
			goldenSeeds(c)
		case c.HasTag("map_partition"):
			fixed, state := golden.Input[[][]int64](c, "room_fixed"), golden.Input[[][]int64](c, "room_state")
			got, err := MapBucket(fixed, state, golden.Param[uint64](c, "modulus"))
			require.NoError(c, err)
			golden.Same(c, "bucket", got)
		}
	})
}

func goldenSeeds(c *golden.Run) {
	s := Spec{Name: golden.Param[string](c, "env_name"), Count: golden.Param[int](c, "n_envs")}
	base, entry := golden.Param[int64](c, "base_seed"), golden.Param[int](c, "spec_idx")
	golden.Decode(c, c.Params, "directive", &s.Seed)
	golden.Decode(c, c.Params, "seed_list", &s.SeedList)

	// The entries before it only set its index.
	f := File{Specs: make([]Spec, entry+1), BaseSeed: base}
	for i := range entry {
		f.Specs[i] = Spec{Name: "Other", Count: 1}
	}
	f.Specs[entry] = s
	episodes, err := f.Episodes()
	require.NoError(c, err)
	got := make([]int64, len(episodes)-entry)
	for i, e := range episodes[entry:] {
		got[i] = e.Seed
	}
	golden.Same(c, "seeds", got)
	if c.Expected["rng_seed"] != nil {
		key := strconv.FormatUint(seedKey(base, entry, s.Name, s.Seed), 10)
		golden.Same(c, "rng_seed", key)
	}
}
