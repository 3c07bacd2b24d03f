package dataset

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env/internal/envtest"
	"vagen/env/sokoban"
	"vagen/internal/rng"
	"vagen/internal/testkit"
)

// TestSamplesArePythons: the numbers are from Python's random.sample(range(n), k) after
// random.seed.
func TestSamplesArePythons(t *testing.T) {
	for _, c := range []struct {
		seed, n uint64
		k       int
		want    []uint64
	}{
		{0, 20005, 5, []uint64{12623, 13781, 1326, 8484, 16753}},
		{0, 20008, 8, []uint64{12623, 13781, 1326, 8484, 16753, 15922, 13268, 9938}},
		{3, 10, 4, []uint64{3, 8, 2, 7}},
		{3, 30, 25, []uint64{7, 18, 17, 4, 11, 19, 15, 20, 28, 2, 24, 0, 23, 8, 29, 3, 25, 27, 16, 13, 12, 6, 22, 1, 5}},
	} {
		require.Equal(t, c.want, newPython(c.seed).sample(c.n, c.k))
	}
	seeds, err := sampleSeeds(t.Context(), nil, 5)
	require.NoError(t, err)
	require.Equal(t, []int64{12623, 13781, 1326, 8484, 16753}, seeds)
	_, err = sampleSeeds(t.Context(), nil, -1)
	require.ErrorContains(t, err, "number of seeds is -1")
}

// TestSeedsKeepTheirDirective for random directives.
func TestSeedsKeepTheirDirective(t *testing.T) {
	r := rng.New(1, rng.Script)
	for range 300 {
		low := r.Int64N(2000) - 1000
		size := 1 + r.Int64N(60)
		n := 1 + r.IntN(100)
		limit := 1 + r.Int64N(4)
		d := []int64{low, low + size - 1, limit}
		s := Spec{Name: "A", Count: n, Seed: d}
		f := File{Specs: []Spec{s}}
		episodes, err := f.Episodes()
		if int64(n) > size*limit {
			require.ErrorContains(t, err, "n_envs", d)
			continue
		}
		require.NoError(t, err)
		require.Len(t, episodes, n)
		counts := map[int64]int64{}
		for _, e := range episodes {
			require.True(t, low <= e.Seed && e.Seed <= d[1], "%d outside %v", e.Seed, d)
			counts[e.Seed]++
			require.LessOrEqual(t, counts[e.Seed], limit)
		}
		again, err := f.Episodes()
		require.NoError(t, err)
		require.Equal(t, episodes, again)
	}
}

func TestSeedsDependOnBaseEntryNameAndDirective(t *testing.T) {
	draw := func(base int64, skip int, name string, d ...int64) []int64 {
		f := File{BaseSeed: base}
		for range skip {
			f.Specs = append(f.Specs, Spec{Name: "Other", Count: 1})
		}
		f.Specs = append(f.Specs, Spec{Name: name, Count: 20, Seed: d})
		episodes, err := f.Episodes()
		require.NoError(t, err)
		var out []int64
		for _, e := range episodes[skip:] {
			out = append(out, e.Seed)
		}
		return out
	}
	all := [][]int64{draw(0, 0, "A", 0, 1e9), draw(1, 0, "A", 0, 1e9), draw(0, 1, "A", 0, 1e9), draw(0, 0, "B", 0, 1e9),
		draw(0, 0, "A", 0, 1e9, 1), draw(0, 0, "A", 7)}
	for i := range all {
		for j := range i {
			require.NotEqual(t, all[i], all[j], "%d and %d", i, j)
		}
	}
	require.Equal(t, draw(0, 0, "A"), draw(0, 0, "A", 0), "no directive is [0]")
}

func TestDirectivesWithTooFewSeedsAreRefused(t *testing.T) {
	for want, d := range map[string][]int64{
		"4 numbers":                      {1, 2, 3, 4},
		"5 to 4 is empty":                {5, 4},
		"the limit is 0":                 {1, 9, 0},
		"the limit is -1":                {1, 9, -1},
		"1 to 9, each at most 1 times":   {1, 9, 1},
		"more than 2⁶⁴−1 numbers":        {math.MinInt64, math.MaxInt64},
		"1 to 3, each at most 3 times, ": {1, 3, 3},
	} {
		s := Spec{Name: "A", Count: 10, Seed: d}
		err := s.Validate()
		testkit.Error(t, err, ErrFile, want)
	}
	s := Spec{Name: "A", Count: 10, Seed: []int64{math.MinInt64, math.MaxInt64 - 1, math.MaxInt64}}
	require.NoError(t, s.Validate(), "huge numbers that fit")
	f := File{Specs: []Spec{s}}
	_, err := f.Episodes()
	require.NoError(t, err)
}

// TestSokobanSeedsAreSolvable: the seeds are the first from 0 whose legacy room has a
// short enough solution, with any number of processors.
func TestSokobanSeedsAreSolvable(t *testing.T) {
	config := map[string]any{"min_actions_to_succeed": int64(4), "render_mode": "vision"}
	seeds, err := sokobanSeeds(t.Context(), config, 6)
	require.NoError(t, err)
	require.Len(t, seeds, 6)
	require.True(t, slices.IsSorted(seeds))
	require.Len(t, config, 2, "the caller's options are unchanged")
	e, err := sokoban.FromConfig(map[string]any{"rules": "legacy", "render_mode": "text"})
	require.NoError(t, err)
	var want []int64
	for seed := int64(0); seed <= seeds[5]; seed++ {
		envtest.Reset(t, e, seed)
		if moves, ok := e.(*sokoban.Env).Room().Solve(4); ok && len(moves) > 0 {
			want = append(want, seed)
		}
	}
	require.Equal(t, want, seeds)
	_, err = sokobanSeeds(t.Context(), map[string]any{"dim_rom": int64(4)}, 6)
	require.ErrorContains(t, err, "dim_room")
}

func TestRoomBucketReadsTheRoom(t *testing.T) {
	e, err := sokoban.FromConfig(map[string]any{"render_mode": "text"})
	require.NoError(t, err)
	seen := map[uint64]bool{}
	for seed := range int64(24) {
		envtest.Reset(t, e, seed)
		b, err := RoomBucket(e.(*sokoban.Env).Room(), 4)
		require.NoError(t, err)
		require.Less(t, b, uint64(4))
		seen[b] = true
	}
	require.Len(t, seen, 4, "every bucket gets rooms")
	_, err = MapBucket(nil, nil, 0)
	require.ErrorContains(t, err, "at least one bucket")
}
