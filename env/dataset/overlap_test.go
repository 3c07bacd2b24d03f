package dataset

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/rng"
	"vagen/internal/testkit"
)

func at(env string, seed int64, config map[string]any) Episode {
	return Episode{Name: env, Env: env, Seed: seed, Config: config}
}

func TestOverlapsAreEqualLevels(t *testing.T) {
	big, small := map[string]any{"size": int64(8)}, map[string]any{"size": int64(4), "render_mode": "text"}
	train := []Episode{at("frozenlake", 1, big), at("frozenlake", 2, big), at("frozenlake", 2, big), at("sokoban", 3, nil)}
	require.Empty(t, Overlaps(train, []Episode{at("frozenlake", 1, small), at("frozenlake", 3, big),
		at("sokoban", 2, nil)}))
	require.NoError(t, Disjoint(train, nil))
	val := []Episode{at("sokoban", 9, nil), at("FrozenLake", 2, map[string]any{"render_mode": "vision"}),
		at("Sokoban", 3, map[string]any{"num_boxes": int64(2)})}
	require.Equal(t, []Overlap{{"frozenlake", 2, 1, 1}, {"sokoban", 3, 3, 2}}, Overlaps(train, val),
		"options set on one side only are ignored")
	err := Disjoint(train, val)
	testkit.Error(t, err, ErrOverlap,
		"2 levels: frozenlake seed 2 (episodes 1 and 1), sokoban seed 3 (episodes 3 and 2)")

	mine := func(v any) Episode { return at("mine", 1, map[string]any{"map": v}) }
	require.NotEmpty(t, Overlaps([]Episode{mine("a")}, []Episode{mine("b")}))
	require.Empty(t, Overlaps([]Episode{mine("a")}, []Episode{mine("b")}, "map"))
}

// TestOverlapsAreTheIntersectionOfSeeds for random sets of seeds.
func TestOverlapsAreTheIntersectionOfSeeds(t *testing.T) {
	r := rng.New(2, rng.Script)
	for range 50 {
		sets := [2]map[int64]bool{{}, {}}
		var sides [2][]Episode
		for i := range sets {
			for range r.IntN(40) {
				seed := r.Int64N(50)
				sets[i][seed] = true
				sides[i] = append(sides[i], at("a", seed, nil))
			}
		}
		want := 0
		for seed := range sets[0] {
			if sets[1][seed] {
				want++
			}
		}
		found := Overlaps(sides[0], sides[1])
		require.Len(t, found, want)
		for _, o := range found {
			require.Equal(t, o.Seed, sides[0][o.A].Seed)
			require.Equal(t, o.Seed, sides[1][o.B].Seed)
		}
	}
}
