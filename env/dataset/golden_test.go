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
	const file = "algorithms_next/run_control.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		switch {
		case c.HasTag("seed_directive"), c.HasTag("seed_list"):
			tally.Case()
			goldenSeeds(t, tally, c)
		case c.HasTag("map_partition"):
			tally.Case()
			goldenPart(t, tally, c)
		}
	}
}

func goldenSeeds(t *testing.T, tally *golden.Tally, c golden.Case) {
	var s Spec
	var base int64
	var entry int
	golden.Need(t, c.Params, "env_name", &s.Name)
	golden.Need(t, c.Params, "n_envs", &s.Count)
	golden.Need(t, c.Params, "base_seed", &base)
	golden.Need(t, c.Params, "spec_idx", &entry)
	golden.Decode(t, c.Params, "directive", &s.Seed)
	golden.Decode(t, c.Params, "seed_list", &s.SeedList)

	// The entries before it only set its index.
	f := File{Specs: make([]Spec, entry+1), BaseSeed: base}
	for i := range entry {
		f.Specs[i] = Spec{Name: "Other", Count: 1}
	}
	f.Specs[entry] = s
	episodes, err := f.Episodes()
	require.NoError(t, err, c.Name)
	want := golden.Value[[]int64](t, c.Expected, "seeds")
	got := make([]int64, len(episodes)-entry)
	for i, e := range episodes[entry:] {
		got[i] = e.Seed
	}
	tally.Add(1)
	require.Equal(t, want, got, c.Name)
	var key string
	if golden.Decode(t, c.Expected, "rng_seed", &key) {
		golden.Equal(t, tally, c.Name+" key", strconv.FormatUint(seedKey(base, entry, s.Name, s.Seed), 10), key)
	}
}

func goldenPart(t *testing.T, tally *golden.Tally, c golden.Case) {
	var fixed, state [][]int64
	var n, want uint64
	golden.Need(t, c.Inputs, "room_fixed", &fixed)
	golden.Need(t, c.Inputs, "room_state", &state)
	golden.Need(t, c.Params, "modulus", &n)
	golden.Need(t, c.Expected, "bucket", &want)
	got, err := MapBucket(fixed, state, n)
	require.NoError(t, err)
	golden.Equal(t, tally, c.Name, got, want)
}
