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
	golden.Each(t, "algorithms_2026/difficulty_pool.json", func(c *golden.Run) {
		if c.HasTag("gate") {
			compareGate(c)
			return
		}
		named := golden.Param[map[string][2]float64](c, "pools") // limit and weight
		tasks, pools := golden.Input[[]string](c, "tasks"), golden.Expected[[]string](c, "pool")
		names := slices.SortedFunc(maps.Keys(named), func(a, b string) int {
			return cmp.Compare(named[a][0], named[b][0])
		})
		p := &config.PoolsConfig{Unseen: 1}
		for i, name := range names {
			if p.Weights = append(p.Weights, named[name][1]); i < len(names)-1 {
				p.Limits = append(p.Limits, named[name][0])
			}
		}
		var stream numpyrand.MT19937
		stream.SeedPythonUint64(golden.Param[uint64](c, "seed"))
		rates := map[int]float64{}
		rate := func(i int) (float64, bool) { r, ok := rates[i]; return r, ok }
		var drawn []string
		for _, r := range golden.Input[[]round](c, "rounds") {
			if len(r.Rewards) > 0 {
				sum := 0.0
				for _, x := range r.Rewards {
					sum += x
				}
				rates[slices.Index(tasks, r.Observe)] = sum / float64(len(r.Rewards))
			}
			for range r.Draw {
				i, ok := NewTable(p, len(tasks), rate).Draw(stream.Float64())
				require.True(c, ok)
				drawn = append(drawn, tasks[i])
			}
		}
		golden.Same(c, "drawn", drawn)
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
			c.Equal(fmt.Sprint(tasks[i], rates), in, pools[i])
		}
		golden.Same(c, "metrics", got)
	})
}

func compareGate(c *golden.Run) {
	g := config.PoolsConfig{RejectMin: c.Param("reject_min"), RejectMax: c.Param("reject_max")}
	admitted := Admits(&g, golden.Input[[]float32](c, "group_advantages"))
	c.Equal("admit", admitted, golden.Expected[int](c, "admit") == 1)
}

func TestGatesAdmitGroupsWithOneTokenOutside(t *testing.T) {
	require.True(t, Admits(&config.PoolsConfig{}, []float32{0, -1e-3, 0}))
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
