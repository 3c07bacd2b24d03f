package reward

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

// exactMatches counts the pairs of one claimed and one true object that agree in
// both directions; unstated directions agree with unstated ones. Names are ignored,
// and each object is in one pair at most.
func exactMatches(said, truth []Relation) int {
	type place struct{ vertical, horizontal string }
	open := make(map[place]int, len(truth))
	for _, t := range truth {
		open[place{t.Vertical, t.Horizontal}]++
	}
	n := 0
	for _, s := range said {
		if at := (place{s.Vertical, s.Horizontal}); open[at] > 0 {
			open[at]--
			n++
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
	var restSaid, restTruth []Relation
	taken := make([]bool, len(truth))
	whole := 0
	for _, s := range said {
		at := -1
		for j, t := range truth {
			if !taken[j] && agreements(s, t) == 2 {
				at = j
				break
			}
		}
		if at < 0 {
			restSaid = append(restSaid, s)
			continue
		}
		taken[at] = true
		whole++
	}
	for j, t := range truth {
		if !taken[j] {
			restTruth = append(restTruth, t)
		}
	}
	return float64(whole) + float64(largestMatching(restSaid, restTruth))/2
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
// direction.
func largestMatching(said, truth []Relation) int {
	partner := make([]int, len(truth)) // index of the said object, −1 when free
	for j := range partner {
		partner[j] = -1
	}
	visited := make([]int, len(truth)) // round in which the true object was tried
	var augment func(i, round int) bool
	augment = func(i, round int) bool {
		for j, t := range truth {
			if visited[j] == round || agreements(said[i], t) == 0 {
				continue
			}
			visited[j] = round
			if partner[j] < 0 || augment(partner[j], round) {
				partner[j] = i
				return true
			}
		}
		return false
	}
	size := 0
	for i := range said {
		if augment(i, i+1) {
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
