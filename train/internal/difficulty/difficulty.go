// Package difficulty draws tasks by how often they were solved, as DifficultyPoolSampler of
// prime-rl does: pools of tasks with similar solve rates have weights. [Admits] leaves groups out that teach nothing.
package difficulty

import (
	"sort"

	"vagen/train/config"
)

// PoolOf returns the pool of a solve rate, from 0: the first one whose limit is at least the rate, or else the last.
func PoolOf(p *config.PoolsConfig, rate float64) int { return sort.SearchFloat64s(p.Limits, rate) }

// Table holds the cumulative weights of tasks.
type Table []float64

// NewTable returns the table of n tasks, of which rate returns the solve rates; ok is false for a task without one.
func NewTable(p *config.PoolsConfig, n int, rate func(task int) (rate float64, ok bool)) Table {
	t, total := make(Table, n), 0.0
	for i := range t {
		if r, ok := rate(i); ok {
			total += p.Weights[PoolOf(p, r)]
		} else {
			total += p.Unseen
		}
		t[i] = total
	}
	return t
}

// Draw returns the task that a number in [0, 1) selects; ok is false if all weights are 0.
func (t Table) Draw(u float64) (task int, ok bool) {
	if len(t) == 0 || t[len(t)-1] == 0 {
		return 0, false
	}
	u *= t[len(t)-1]
	return min(sort.Search(len(t), func(i int) bool { return t[i] > u }), len(t)-1), true
}

// Admits reports whether a group counts, as AdvRangeGate of prime-rl does: one of its tokens' advantages is outside
// [RejectMin, RejectMax], or it has none.
func Admits(p *config.PoolsConfig, advantages []float32) bool {
	low, high := float32(p.RejectMin), float32(p.RejectMax) // a limit of 0.1 includes an advantage of 0.1
	for _, a := range advantages {
		if !(a >= low && a <= high) {
			return true
		}
	}
	return len(advantages) == 0
}
