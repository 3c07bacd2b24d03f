package difficulty

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/numpyrand"
	"vagen/train/config"
)

// round observes the rewards of a group, or draws tasks.
type round struct {
	Observe string    `json:"observe"`
	Rewards []float64 `json:"rewards"`
	Draw    int       `json:"draw"`
}

func TestDrawsAreThoseOfTheOriginal(t *testing.T) {
	const file = "algorithms_2026/difficulty_pool.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		if c.HasTag("gate") {
			continue // see below
		}
		t.Run(c.Name, func(t *testing.T) {
			tally.Case()
			var seed uint64
			var named map[string][2]float64 // limit and weight
			var tasks, want, pools []string
			var rounds []round
			var counts map[string]int
			golden.Need(t, c.Params, "seed", &seed)
			golden.Need(t, c.Params, "pools", &named)
			golden.Need(t, c.Inputs, "tasks", &tasks)
			golden.Need(t, c.Inputs, "rounds", &rounds)
			golden.Need(t, c.Expected, "drawn", &want)
			golden.Need(t, c.Expected, "pool", &pools)
			golden.Need(t, c.Expected, "metrics", &counts)

			names := slices.SortedFunc(maps.Keys(named), func(a, b string) int { return cmp.Compare(named[a][0], named[b][0]) })
			p := &config.PoolsConfig{Unseen: 1}
			for i, name := range names {
				if p.Weights = append(p.Weights, named[name][1]); i < len(names)-1 {
					p.Limits = append(p.Limits, named[name][0])
				}
			}
			var stream numpyrand.MT19937
			stream.SeedPythonUint64(seed)
			rates := map[int]float64{}
			rate := func(i int) (float64, bool) { r, ok := rates[i]; return r, ok }
			var drawn []string
			for _, r := range rounds {
				if len(r.Rewards) > 0 {
					sum := 0.0
					for _, x := range r.Rewards {
						sum += x
					}
					rates[slices.Index(tasks, r.Observe)] = sum / float64(len(r.Rewards))
				}
				for range r.Draw {
					i, ok := NewTable(p, len(tasks), rate).Draw(stream.Float64())
					require.True(t, ok)
					drawn = append(drawn, tasks[i])
				}
			}
			require.Equal(t, want, drawn)
			tally.Add(len(want) + len(tasks))
			got := map[string]int{"pool/unseen": len(tasks) - len(rates)}
			for _, name := range names {
				got["pool/"+name] = 0
			}
			for i := range tasks {
				in := ""
				if r, ok := rates[i]; ok {
					in = names[PoolOf(p, r)]
					got["pool/"+in]++
				}
				require.Equal(t, pools[i], in, fmt.Sprint(tasks[i], rates))
			}
			require.Equal(t, counts, got)
		})
	}
}

func TestGatesAdmitTheGroupsOfTheOriginal(t *testing.T) {
	const file = "algorithms_2026/difficulty_pool.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		if !c.HasTag("gate") {
			continue
		}
		tally.Case()
		var g config.PoolsConfig
		var advantages []float32
		var want int
		golden.Need(t, c.Params, "reject_min", &g.RejectMin)
		golden.Need(t, c.Params, "reject_max", &g.RejectMax)
		golden.Need(t, c.Inputs, "group_advantages", &advantages)
		golden.Need(t, c.Expected, "admit", &want)
		require.Equal(t, want == 1, Admits(&g, advantages), c.Name)
		tally.Add(1)
	}
	require.True(t, Admits(&config.PoolsConfig{}, []float32{0, -1e-3, 0}), "one token outside is enough")
	require.True(t, Admits(&config.PoolsConfig{RejectMin: -1, RejectMax: 1}, []float32{0, 1.5}))
}

func TestTasksWithoutWeightAreNotDrawn(t *testing.T) {
	p := &config.PoolsConfig{Limits: []float64{0.5}, Weights: []float64{1, 0}}
	seen := func(rates ...float64) func(int) (float64, bool) {
		return func(i int) (float64, bool) { return rates[i], rates[i] >= 0 }
	}
	_, ok := NewTable(p, 3, seen(1, -1, 0.6)).Draw(0.5)
	require.False(t, ok, "all weights are 0")
	for _, u := range []float64{0, 0.5, 0.999999} {
		i, ok := NewTable(p, 3, seen(1, 0.5, -1)).Draw(u)
		require.True(t, ok)
		require.Equal(t, 1, i)
	}
}
