// Package difficulty draws tasks by how often they were solved, as DifficultyPoolSampler of
// prime-rl does: pools of tasks with similar solve rates have weights. A [Gate] leaves groups out that teach nothing.
package difficulty

import "sort"

// Pools divide tasks by their solve rate.
type Pools struct {
	// Limits are increasing: a task is in the first pool whose limit is at least its solve rate, or
	// else in the last pool.
	Limits  []float64
	Weights []float64 // of the pools, one more than Limits
	Unseen  float64   // weight of a task without a solve rate
}

// Of returns the pool of a solve rate, from 0.
func (p *Pools) Of(rate float64) int { return sort.SearchFloat64s(p.Limits, rate) }

// Table holds the cumulative weights of tasks.
type Table []float64

// Table returns the table of n tasks, of which rate returns the solve rates; ok is false for a task without one.
func (p *Pools) Table(n int, rate func(task int) (rate float64, ok bool)) Table {
	t, total := make(Table, n), 0.0
	for i := range t {
		if r, ok := rate(i); ok {
			total += p.Weights[p.Of(r)]
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

// Gate leaves out groups of episodes by their advantages, as AdvRangeGate of prime-rl.
type Gate struct{ Min, Max float64 }

// Admits reports whether a group counts: one of its tokens' advantages is outside [Min, Max], or it has none.
func (g Gate) Admits(advantages []float32) bool {
	low, high := float32(g.Min), float32(g.Max) // a limit of 0.1 includes an advantage of 0.1
	for _, a := range advantages {
		if !(a >= low && a <= high) {
			return true
		}
	}
	return len(advantages) == 0
}
