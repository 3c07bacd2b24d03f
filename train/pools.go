package train

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	"vagen/internal/rng"
	"vagen/rollout"
	"vagen/train/internal/difficulty"
	"vagen/train/track"
)

// draws chooses start states with data.pools: some by difficulty in the place of those that Levels has next. It does
// not change, so that steps can be collected at the same time.
type draws struct {
	levels *Levels
	solved map[int64]float64 // State.Solved

	once    sync.Once
	members [][]int64          // the start states that can be drawn: of each entry with a weight, or all
	tables  []difficulty.Table // of members
}

// number returns the number of a start state for Levels.level, and whether it was drawn.
func (d *draws) number(step, group int) (n int64, drawn bool) {
	l := d.levels
	n = l.number(step, group)
	c := l.config
	r := rng.New(c.Run.Seed, rng.Level, uint64(step), uint64(group), 1)
	if share, u := r.Float64(), r.Float64(); share < c.Data.Pools.Share {
		d.once.Do(d.prepare)
		entry := 0
		if len(l.train) > 0 {
			entry = l.mixture.of[n]
		}
		if i, ok := d.tables[entry].Draw(u); ok {
			return d.members[entry][i], true
		}
	}
	return n, false
}

// prepare makes the tables.
func (d *draws) prepare() {
	l := d.levels
	if len(l.train) == 0 {
		d.members = [][]int64{slices.Sorted(maps.Keys(d.solved))}
	} else {
		d.members = l.mixture.members
	}
	for _, of := range d.members {
		d.tables = append(d.tables, difficulty.NewTable(&l.config.Data.Pools, len(of), func(i int) (float64, bool) {
			rate, ok := d.solved[of[i]]
			return rate, ok
		}))
	}
}

// measure returns the solve rates of the start states of a step's usable episodes; if groups share a start state,
// the last one counts. It writes how many start states are in each pool, and how many of the step's groups were drawn.
func (d *draws) measure(m track.Metrics, step int, ts []*rollout.Trajectory) map[int64]float64 {
	p := &d.levels.config.Data.Pools
	for i := range p.Weights {
		m["pool/"+strconv.Itoa(i+1)] = 0
	}
	for _, rate := range d.solved {
		m["pool/"+strconv.Itoa(difficulty.PoolOf(p, rate)+1)]++
	}
	if n := len(d.levels.train); n > 0 {
		m["pool/unseen"] = float64(n - len(d.solved))
	}
	m["pool/drawn"] = 0
	usable, solved := map[int]float64{}, map[int]float64{}
	for _, t := range ts {
		usable[t.Group] += 0 // a group without usable episodes counts as drawn, too
		if t.End.Usable() {
			usable[t.Group]++
			if t.Success {
				solved[t.Group]++
			}
		}
	}
	rates := map[int64]float64{}
	for _, group := range slices.Sorted(maps.Keys(usable)) {
		n, drawn := d.number(step, group)
		if drawn {
			m["pool/drawn"]++
		}
		if usable[group] > 0 {
			rates[n] = solved[group] / usable[group]
		}
	}
	return rates
}

// observe adds the solve rates of a step's start states to the state.
func (p *progress) observe(rates map[int64]float64) {
	if len(rates) > 0 {
		all := map[int64]float64{} // collections of later steps have the old one
		maps.Copy(all, p.Solved)
		maps.Copy(all, rates)
		p.Solved = all
	}
}

// collecting returns the collector for a step that is collected now.
func (t *Trainer) collecting() collector {
	c := t.collector
	if t.Config.Data.Pools.Share > 0 {
		c.draws = &draws{levels: t.Levels, solved: t.progress.Solved}
	}
	return c
}

// StartState returns the start state of a group of a step, counted from 1 and 0, as it would be if the step was
// collected now: with data.pools it depends on the steps before. Before Check, Collect or Player has been called it has
// no environment.
func (t *Trainer) StartState(step, group int) rollout.Episode {
	if t.collector.config == nil {
		return rollout.Episode{}
	}
	c := t.collecting()
	return c.episode(step, group, 0)
}
