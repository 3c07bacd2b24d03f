package net

import (
	"slices"

	"vagen/policy"
	"vagen/policy/vlm/internal/tree"
)

// Leaves arranges rows like packs, divided into k.leafCount parts of about the same
// size, which depend on nothing else. It returns nil if no row has a token to score.
func (k *Packer) Leaves(rows *policy.Rows, want []bool) ([][]*Pack, error) {
	if k.LeafCount == 1 {
		packs, err := k.Packs(rows, want)
		if err != nil || len(packs) == 0 {
			return nil, err
		}
		return [][]*Pack{packs}, nil
	}
	b, err := k.batch(rows, want)
	if err != nil || len(b.order) == 0 {
		return nil, err
	}
	sets := b.spread()
	out := make([][]*Pack, k.LeafCount)
	load := make([]int, k.LeafCount)
	most := 0 // scored tokens of a pack
	for _, s := range sets {
		parts := make([][][]int, k.LeafCount)
		for _, bin := range s.bins {
			leaf := tree.LeastLoaded(load)
			load[leaf] += s.length
			parts[leaf] = append(parts[leaf], bin)
		}
		n := k.PerPack(s.length)
		for leaf, bins := range parts {
			for part := range slices.Chunk(bins, n) {
				p, err := b.fill(part, min(SizeStep(len(part)), n), s.length)
				if err != nil {
					return nil, err
				}
				most = max(most, len(p.At))
				out[leaf] = append(out[leaf], p)
			}
		}
	}
	for _, packs := range out {
		for _, p := range packs {
			p.chunk = SizeClass(most, 32)
		}
	}
	return out, nil
}

// spread places rows into bins. Where there are fewer bins than parts, a row for each part is faster if each part has a
// device. Bins with shared prompts may be so much less work that they are faster on fewer devices; the number of
// devices must not change the bins, so spreadWork counts both.
func (b *batch) spread() []*binSet {
	all := b.arrangements()
	sets, bins := leastBy(b.work, all), 0
	for _, s := range sets {
		bins += len(s.bins)
	}
	if bins >= min(b.LeafCount, len(b.order)) {
		return sets
	}
	single := *b
	single.of, single.apart = nil, true
	apart := leastBy(b.work, single.arrangements())
	if !slices.ContainsFunc(b.of, func(p prefix) bool { return p.length > 0 }) {
		return apart
	}
	return leastBy(b.spreadWork, append(all, apart))
}

// spreadWork is the work of the largest part, which bounds the time on a device for each part, and that of an average
// part, to which the time on one device is proportional.
func (k *Packer) spreadWork(sets ...*binSet) float64 {
	load, work, sum := make([]int, k.LeafCount), make([]float64, k.LeafCount), 0.0
	for _, s := range sets {
		each := float64(s.length) * k.Cfg.Work(s.length)
		for range s.bins {
			leaf := tree.LeastLoaded(load)
			load[leaf] += s.length
			work[leaf] += each
			sum += each
		}
	}
	return slices.Max(work) + sum/float64(k.LeafCount)
}

// Flat returns the packs of all leaves in order.
func Flat(leaves [][]*Pack) (all []*Pack) {
	for _, packs := range leaves {
		all = append(all, packs...)
	}
	return all
}
