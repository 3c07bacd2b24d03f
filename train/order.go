package train

import (
	"vagen/internal/rng"
	"vagen/rollout"
	"vagen/train/config"
)

// At returns the start state of a group of a step, counted from 1 and 0, in the order of the configuration; with
// data.pools see Trainer.StartState. Replacements of unusable start states are levels after those of all steps, or
// with files the next ones of the epoch.
func (l *Levels) At(step, group int) rollout.Episode {
	if l == nil || l.config == nil { // there are none
		return rollout.Episode{}
	}
	return l.level(l.number(step, group))
}

// level returns a start state by its number: among those of files, or else among the consecutive
// levels of env.name.
func (l *Levels) level(n int64) rollout.Episode {
	if e := &l.config.Env; len(l.train) == 0 {
		return rollout.Episode{Env: e.Name, Config: e.Config, Seed: e.Seed + n}
	}
	return l.train[n]
}

// number returns the number of a group's start state.
func (l *Levels) number(step, group int) int64 {
	c := l.config
	batch := c.Data.TrainBatch
	if len(l.train) == 0 {
		level := int64(step-1)*int64(batch) + int64(group)
		if group >= batch {
			extra := int64(c.Data.MaxStartStates() - batch)
			level = int64(c.Trainer.Steps)*int64(batch) + int64(step-1)*extra + int64(group-batch)
		}
		return level
	}
	if m := l.mixture; m.shares != nil {
		entry, nth := m.at(c.Run.Seed, step, group, batch)
		of := m.members[entry]
		return of[l.orderOf(entry, nth/len(of), len(of))[nth%len(of)]]
	}
	per := len(l.train) / batch // steps of an epoch; remaining episodes are not used
	epoch, first := (step-1)/per, (step-1)%per*batch
	order := l.orderOf(-1, epoch, len(l.train))
	return int64(order[(first+group)%len(order)])
}

// orderOf returns the order of n start states in an epoch: of an entry with a weight, or with entry -1 of all.
// It keeps those of a few epochs, because the episodes of several steps may be collected at the same time.
func (l *Levels) orderOf(entry, epoch, n int) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := [2]int{entry, epoch}
	if l.orders[key] == nil {
		if l.orders == nil || len(l.orders) > config.MaxStaleness*len(l.mixture.members) {
			l.orders = map[[2]int][]int{}
		}
		ids := []uint64{uint64(epoch)}
		if entry >= 0 {
			ids = append(ids, uint64(entry))
		}
		l.orders[key] = rng.Order(l.config.Data.Shuffle, n, l.config.Run.Seed, rng.Level, ids...)
	}
	return l.orders[key]
}

// epochOf returns the epoch of a step, from 0; without files it is always 0.
func (l *Levels) epochOf(step int) int {
	if len(l.train) == 0 {
		return 0
	}
	return (step - 1) / (len(l.train) / l.config.Data.TrainBatch)
}
