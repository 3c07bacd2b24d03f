package advantage

import "math"

// recursion is the state of an advantage recursion between two runs of
// tokens. It runs backwards:
//
//	A(t) = r(t) + gamma·V(next) − V(t) + decay·A(next)
//
// All state is float64. Products are converted explicitly, which keeps
// compilers from fusing them with the sum, so that all machines round alike.
type recursion struct {
	gamma, decay float64
	next, acc    float64 // V and A of the following token
	spread       spread  // of the advantages so far
}

// advance processes a run of tokens that all count, last token first.
//
// It does not check for NaN: a number that is not finite makes the sum of squares not
// finite, which close checks.
func advance[T number](s *recursion, r, v, adv, ret []T) {
	n := len(r)
	v, adv, ret = v[:n], adv[:n], ret[:n]
	odd := n % 4 // the first tokens, which do not fill a block
	if odd < n {
		var k scan
		k.start(s)
		rest := r[odd:]
		if r32, ok := any(rest).([]float32); ok {
			blocks32(&k, r32, any(v[odd:]).([]float32), any(adv[odd:]).([]float32), any(ret[odd:]).([]float32))
		} else {
			blocks(&k, rest, v[odd:], adv[odd:], ret[odd:])
		}
		k.stop(s, n-odd)
	}
	for t := odd - 1; t >= 0; t-- {
		value := float64(v[t])
		a := s.step(float64(r[t]), value)
		s.spread.add(a, 1)
		adv[t], ret[t] = T(a), T(a+value)
	}
}

// zeros is read as rewards by advanceWithoutRewards and as values by advanceWithoutValues.
var zeros struct {
	f32 [1024]float32
	f64 [1024]float64
}

// zeroOf returns the zero of a type.
func zeroOf[T number]() (z []T) {
	switch any(T(0)).(type) {
	case float32:
		z = any(zeros.f32[:]).([]T)
	case float64:
		z = any(zeros.f64[:]).([]T)
	}
	return z
}

// advanceWithoutRewards is advance over tokens without rewards.
func advanceWithoutRewards[T number](s *recursion, v, adv, ret []T) {
	none := zeroOf[T]()
	for end := len(v); end > 0; {
		start := max(0, end-len(none))
		advance(s, none[:end-start], v[start:end], adv[start:end], ret[start:end])
		end = start
	}
}

// advanceWithoutValues is advance without a critic: over rewards alone.
func advanceWithoutValues[T number](s *recursion, r, adv, ret []T) {
	none := zeroOf[T]()
	for end := len(r); end > 0; {
		start := max(0, end-len(none))
		advance(s, r[start:end], none[:end-start], adv[start:end], ret[start:end])
		end = start
	}
}

// step moves the recursion over one token or turn, with the given discounts,
// and returns its advantage. It does not touch the spread.
func (s *recursion) step(reward, value float64) float64 {
	delta := reward + float64(s.gamma*s.next) - value
	s.acc = delta + float64(s.decay*s.acc)
	s.next = value
	return s.acc
}

// spread accumulates mean and variance relative to a shift. With a shift close to the
// data, the sum of squares keeps its precision.
type spread struct {
	n             int
	shift, s1, s2 float64
}

// add counts the number n times.
func (s *spread) add(x float64, n int) {
	d := x - s.shift
	s.n += n
	s.s1 += float64(float64(n) * d)
	s.s2 += float64(float64(n) * float64(d*d))
}

func (s *spread) moments() Moments {
	if s.n == 0 {
		return Moments{}
	}
	n := float64(s.n)
	return Moments{N: s.n, Mean: s.shift + s.s1/n, M2: max(0, s.s2-s.s1*s.s1/n)}
}

// largeResult is half the distance of the largest float32 to its neighbour:
// adding less than this to any float32 stays in range.
const largeResult = 1 << 102

// safe reports whether all numbers can be stored, even after a value is added. It needs no
// pass over the numbers, because none is further from the shift than the root of the sum
// of squares. NaN is not safe.
func (s *spread) safe() bool { return math.Sqrt(s.s2)+math.Abs(s.shift) < largeResult }
