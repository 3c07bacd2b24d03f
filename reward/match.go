package reward

import "slices"

// Objects are compared by name; within a name, claimed objects are assigned to true
// ones.

// F1 returns the harmonic mean of precision and recall for a number of matches,
// which may be fractional, between claimed and true objects:
//
//	2·matches / (claimed + true)
//
// It is 1 when both sides are empty, and 0 when only one is or when matches is not
// positive.
func F1(matches float64, said, truth int) float64 {
	switch {
	case said == 0 && truth == 0:
		return 1
	case said == 0 || truth == 0 || !(matches > 0):
		return 0
	}
	return 2 * matches / float64(said+truth)
}

// kind is the claimed or the true objects that are in the same directions: a list may have thousands of objects, but
// there are few kinds.
type kind struct {
	where Relation // without a name
	n     int
}

func kinds(list []Relation) []kind {
	var kinds []kind
	for _, r := range list {
		where := Relation{Vertical: r.Vertical, Horizontal: r.Horizontal}
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.where == where })
		if i < 0 {
			i, kinds = len(kinds), append(kinds, kind{where: where})
		}
		kinds[i].n++
	}
	return kinds
}

// exactMatches counts the pairs of one claimed and one true object that agree in
// both directions; unstated directions agree with unstated ones. Names are ignored,
// and each object is in one pair at most.
func exactMatches(said, truth []Relation) int {
	n, right := 0, kinds(truth)
	for _, s := range kinds(said) {
		for _, t := range right {
			if s.where == t.where {
				n += min(s.n, t.n)
			}
		}
	}
	return n
}

// Similarity returns the largest sum, over all assignments of claimed objects to
// true ones, of half a point for each direction in which a pair agrees. Unstated
// directions agree with nothing. Names are ignored.
//
// Pairs that agree in both directions are assigned first: replacing two half
// agreements by a whole one never lowers the sum. What is left is a matching of
// largest size among pairs that agree in one direction, found by augmenting
// paths (Kuhn's algorithm).
func Similarity(said, truth []Relation) float64 {
	from, to := kinds(said), kinds(truth)
	whole := 0
	for i := range from {
		for j := range to {
			if agreements(from[i].where, to[j].where) == 2 {
				n := min(from[i].n, to[j].n)
				whole += n
				from[i].n -= n
				to[j].n -= n
			}
		}
	}
	return float64(whole) + float64(largestMatching(from, to))/2
}

func agreements(a, b Relation) int {
	n := 0
	if a.Vertical != "" && a.Vertical == b.Vertical {
		n++
	}
	if a.Horizontal != "" && a.Horizontal == b.Horizontal {
		n++
	}
	return n
}

// largestMatching returns the size of a largest matching of pairs that agree in a
// direction. It uses up the true objects.
func largestMatching(said, truth []kind) int {
	pairs := make([]int, len(said)*len(truth)) // of a claimed and a true kind
	visited := make([]int, len(truth))         // size of the matching, from 1, when the true kind was tried
	var augment func(i, round int) bool
	augment = func(i, round int) bool {
		for j := range truth {
			if visited[j] == round || agreements(said[i].where, truth[j].where) == 0 {
				continue
			}
			visited[j] = round
			found := truth[j].n > 0
			if found {
				truth[j].n--
			}
			for k := 0; k < len(said) && !found; k++ {
				if other := k*len(truth) + j; pairs[other] > 0 && augment(k, round) {
					pairs[other]--
					found = true
				}
			}
			if found {
				pairs[i*len(truth)+j]++
				return true
			}
		}
		return false
	}
	size := 0
	for i := range said {
		for n := said[i].n; n > 0 && augment(i, size+1); n-- {
			size++
		}
	}
	return size
}

// AboveBase returns the part of a score above base, the average score of guessing:
// (score − base)/(1 − base), at least 0, so that a perfect score stays 1. A base of 0
// changes nothing.
func AboveBase(score, base float64) float64 {
	if base <= 0 {
		return score
	}
	return max(0, (score-base)/(1-base))
}
