package net

import (
	"vagen/policy"
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
	order, size, err := k.order(rows, want)
	if err != nil || len(order) == 0 {
		return nil, err
	}
	of, err := k.prefixes(rows, want)
	if err != nil {
		return nil, err
	}
	sets := k.arrange(order, size, of)
	bins := 0
	for _, s := range sets {
		bins += len(s.bins)
	}
	if bins < min(k.LeafCount, len(order)) { // a row for each device is faster than full bins
		single := *k
		single.noPacking = true
		sets = single.arrange(order, size, nil)
	}
	out := make([][]*Pack, k.LeafCount)
	load := make([]int, k.LeafCount)
	most := 0 // scored tokens of a pack
	for _, s := range sets {
		parts := make([][][]int, k.LeafCount)
		for _, bin := range s.bins {
			leaf := LeastLoaded(load)
			load[leaf] += s.length
			parts[leaf] = append(parts[leaf], bin)
		}
		n := k.PerPack(s.length)
		for leaf, bins := range parts {
			for from := 0; from < len(bins); from += n {
				part := bins[from:min(from+n, len(bins))]
				p, err := k.fill(rows, want, of, part, min(sizeStep(len(part)), n), s.length)
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

// LeastLoaded returns the index of the smallest number, the first of several.
func LeastLoaded(load []int) int {
	least := 0
	for i, n := range load {
		if n < load[least] {
			least = i
		}
	}
	return least
}

// Flat returns the packs of all leaves in order.
func Flat(leaves [][]*Pack) (all []*Pack) {
	for _, packs := range leaves {
		all = append(all, packs...)
	}
	return all
}
