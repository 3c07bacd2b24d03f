package advantage

// Masks are long runs of equal entries: a turn, an observation. Finding where
// they end costs as much as the arithmetic in between if it is done entry by
// entry, so the functions here go by blocks where they can.
type block = [32]bool

var allFalse block

// runBefore returns where the run of equal entries starts that ends before end,
// and what its entries are. A run does not reach below lo.
func runBefore(mask []bool, lo, end int) (start int, in bool) {
	row := mask[lo:end]
	t := len(row) - 1
	in = row[t]
	// A run equals itself shifted by one.
	for t >= len(block{}) && *(*block)(row[t-len(block{}):]) == *(*block)(row[t-len(block{})+1:]) {
		t -= len(block{})
	}
	for t > 0 && row[t-1] == in {
		t--
	}
	return lo + t, in
}

// runFrom returns where the run of equal entries ends that starts at t, and
// what its entries are. A run does not reach hi.
func runFrom(mask []bool, t, hi int) (end int, in bool) {
	row := mask[t:hi]
	end, in = 1, row[0]
	for end+len(block{}) <= len(row) && *(*block)(row[end:]) == *(*block)(row[end-1:]) {
		end += len(block{})
	}
	for end < len(row) && row[end] == in {
		end++
	}
	return t + end, in
}

// lastTrue returns the last position with the mask set, -1 when there is none.
func lastTrue(mask []bool) int {
	t := len(mask)
	for t >= len(block{}) && *(*block)(mask[t-len(block{}):]) == allFalse {
		t -= len(block{})
	}
	for t > 0 && !mask[t-1] {
		t--
	}
	return t - 1
}

// firstTrue returns the first position with the mask set, -1 when there is
// none.
func firstTrue(mask []bool) int {
	if len(mask) == 0 {
		return -1
	}
	end, in := runFrom(mask, 0, len(mask))
	switch {
	case in:
		return 0
	case end == len(mask):
		return -1
	}
	return end
}

// count returns how many entries are true.
func count(mask []bool) int {
	n := 0
	for t := 0; t < len(mask); {
		end, in := runFrom(mask, t, len(mask))
		if in {
			n += end - t
		}
		t = end
	}
	return n
}

// fill sets all of dst. Copying what is there already beats a loop of stores.
func fill[E any](dst []E, x E) {
	if len(dst) == 0 {
		return
	}
	dst[0] = x
	for n := 1; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}
