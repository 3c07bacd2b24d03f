package dataset

import "vagen/internal/numpyrand"

// python reproduces the draws of Python's random module.
type python struct{ numpyrand.MT19937 }

func newPython(seed uint64) *python {
	p := new(python)
	p.SeedPythonUint64(seed)
	return p
}

// sample is random.sample(range(n), k) for k ≤ n: from a shuffled pool if n is small,
// otherwise by repeating draws that are already in the sample.
func (p *python) sample(n uint64, k int) []uint64 {
	out := make([]uint64, k)
	pooled := uint64(21)
	if k > 5 {
		power := uint64(1)
		for power < 3*uint64(k) {
			power *= 4
		}
		pooled += power
	}
	if n <= pooled {
		pool := make([]uint64, n)
		for i := range pool {
			pool[i] = uint64(i)
		}
		for i := range out {
			j := p.Below(n - uint64(i))
			out[i] = pool[j]
			pool[j] = pool[n-uint64(i)-1]
		}
		return out
	}
	seen := make(map[uint64]bool, k)
	for i := range out {
		x := p.Below(n)
		for seen[x] {
			x = p.Below(n)
		}
		seen[x] = true
		out[i] = x
	}
	return out
}
