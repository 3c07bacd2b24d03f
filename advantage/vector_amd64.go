//go:build !purego

package advantage

import "golang.org/x/sys/cpu"

// vectors reports whether the vector kernels can run.
var vectors = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// blocksVector is blocks for n tokens, a multiple of four that is not 0. It
// leaves k.next alone.
//
//go:noescape
func blocksVector(k *scan, r, v, adv, ret *float32, n int)

// scaleVector is scale for n numbers, a multiple of eight that is not 0.
//
//go:noescape
func scaleVector(dst, x *float32, n int, shift, scale float64)

// scaleWhereVector is scaleWhere for n numbers, a multiple of eight that is not
// 0.
//
//go:noescape
func scaleWhereVector(x *float32, mask *bool, n int, shift, scale float64)

// sumVector writes the strands of sum for n numbers, a multiple of eight that
// is not 0.
//
//go:noescape
func sumVector(x *float32, n int, strands *[8]float64)

// finiteVector is finite for n numbers, a multiple of eight that is not 0.
//
//go:noescape
func finiteVector(x *float32, n int) bool

// prepareVector is prepare for n numbers, a multiple of eight that is not 0.
//
//go:noescape
func prepareVector(r, v, adv, returns *float32, n int, unset float32) bool

// blocks32 is blocks for float32.
func blocks32(k *scan, r, v, adv, ret []float32) {
	if !vectors || len(r) == 0 {
		blocks(k, r, v, adv, ret)
		return
	}
	v, adv, ret = v[:len(r)], adv[:len(r)], ret[:len(r)]
	blocksVector(k, &r[0], &v[0], &adv[0], &ret[0], len(r))
	k.next = float64(v[0])
}

// whole returns the largest multiple of eight up to n, the number of entries that the
// other kernels process.
func whole(n int) int {
	if !vectors {
		return 0
	}
	return n &^ 7
}

// scale32 is scale for float32.
func scale32(dst, x []float32, shift, by float64) {
	dst = dst[:len(x)]
	n := whole(len(x))
	if n > 0 {
		scaleVector(&dst[0], &x[0], n, shift, by)
	}
	scaleAll(dst[n:], x[n:], shift, by)
}

// scaleWhere32 is scaleWhere for float32.
func scaleWhere32(x []float32, mask []bool, shift, by float64) {
	mask = mask[:len(x)]
	n := whole(len(x))
	if n > 0 {
		scaleWhereVector(&x[0], &mask[0], n, shift, by)
	}
	scaleWhereAll(x[n:], mask[n:], shift, by)
}

// sum32 is sum for float32.
func sum32(x []float32) float64 {
	var s [8]float64
	n := whole(len(x))
	if n > 0 {
		sumVector(&x[0], n, &s)
	}
	return sumPartial(&s, x[n:])
}

// finite32 is finite for float32.
func finite32(x []float32) bool {
	n := whole(len(x))
	return (n == 0 || finiteVector(&x[0], n)) && finiteAll(x[n:])
}

// prepare32 is prepare for float32.
func prepare32(r, v, adv, ret []float32, unset float32) bool {
	v, adv, ret = v[:len(r)], adv[:len(r)], ret[:len(r)]
	n := whole(len(r))
	if n == 0 {
		return prepareAll(r, v, adv, ret, unset)
	}
	t := len(r) - 8 // the last eight, some of them again
	ok := t == n-8 || prepareVector(&r[t], &v[t], &adv[t], &ret[t], 8, unset)
	ok = prepareVector(&r[0], &v[0], &adv[0], &ret[0], n, unset) && ok
	return ok
}
