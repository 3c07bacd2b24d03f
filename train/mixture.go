package train

import (
	"fmt"
	"math"
	"sync"

	"vagen/env/dataset"
	"vagen/internal/rng"
)

// mixture divides the start states of files among their entries by the entries' weights. Without weights, all are
// those of one entry.
type mixture struct {
	of      []int     // entry of each start state, parallel to Levels.train
	shares  []float64 // of the first entry, of the first two, ...; nil without weights
	members [][]int64 // start states of each entry

	mu     sync.Mutex
	before [][]int // by step: how many start states of each entry the steps before it have
}

func newMixture(lines []dataset.Episode) (*mixture, error) {
	m := &mixture{of: make([]int, len(lines))}
	with, without, total := "", "", 0.0
	for i := range lines {
		e := &lines[i]
		if e.Weight == 0 {
			without = e.Name
		} else if with = e.Name; i == 0 || e.Entry != lines[i-1].Entry {
			total += e.Weight
			m.shares = append(m.shares, total)
		}
		m.of[i] = max(0, len(m.shares)-1)
	}
	if with != "" && without != "" {
		return nil, fmt.Errorf("weight is set for an entry of %s, but not for one of %s, must be set for all or none", with,
			without)
	}
	for i := range m.shares {
		m.shares[i] /= total
	}
	return m, m.group()
}

// group lists the start states of each entry.
func (m *mixture) group() error {
	m.members, m.before = make([][]int64, max(1, len(m.shares))), nil
	for i, e := range m.of {
		m.members[e] = append(m.members[e], int64(i))
	}
	for e, of := range m.members {
		if len(of) == 0 && m.shares != nil {
			return fmt.Errorf("no episode of the entry with number %d and a weight is left", e)
		}
	}
	return nil
}

// bounds returns, for each entry, the group after its last one in a step. The number of groups is that of the entry's
// share, rounded up in some steps and down in others.
func (m *mixture) bounds(step, batch int) []int {
	_, offset := math.Modf(float64(step) * math.Phi)
	out := make([]int, len(m.shares))
	for e, share := range m.shares {
		out[e] = max(0, int(math.Ceil(share*float64(batch)-offset)))
	}
	out[len(out)-1] = batch
	return out
}

// at returns a group's entry and its number among all start states of the entry.
func (m *mixture) at(seed uint64, step, group, batch int) (entry, nth int) {
	ends := m.bounds(step, batch)
	if group >= batch { // a replacement
		u := rng.New(seed, rng.Level, uint64(step), uint64(group), 0).Float64()
		for m.shares[entry] <= u {
			entry++
		}
		return entry, m.played(step+1, batch)[entry] + group - batch
	}
	for ends[entry] <= group {
		entry++
	}
	nth = m.played(step, batch)[entry] + group
	if entry > 0 {
		nth -= ends[entry-1]
	}
	return entry, nth
}

// played returns how many start states of each entry the steps before one have.
func (m *mixture) played(step, batch int) []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.before == nil {
		m.before = [][]int{nil, make([]int, len(m.shares))}
	}
	for s := len(m.before); s <= step; s++ {
		now, first := make([]int, len(m.shares)), 0
		for e, end := range m.bounds(s-1, batch) {
			now[e], first = m.before[s-1][e]+end-first, end
		}
		m.before = append(m.before, now)
	}
	return m.before[step]
}
