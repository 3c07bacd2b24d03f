//go:build !amd64 || purego

package advantage

// vectors is false: there are no vector kernels here.
var vectors = false

// blocks32 is blocks for float32.
func blocks32(k *scan, r, v, adv, ret []float32) { blocks(k, r, v, adv, ret) }

// scale32 is scale for float32.
func scale32(dst, x []float32, shift, by float64) { scaleAll(dst, x, shift, by) }

// scaleWhere32 is scaleWhere for float32.
func scaleWhere32(x []float32, mask []bool, shift, by float64) { scaleWhereAll(x, mask, shift, by) }

// prepare32 is prepare for float32.
func prepare32(r, v, adv, ret []float32, unset float32) bool {
	return prepareAll(r, v, adv, ret, unset)
}

// sum32 is sum for float32.
func sum32(x []float32) float64 { return sumPartial(new([8]float64), x) }

// finite32 is finite for float32.
func finite32(x []float32) bool { return finiteAll(x) }
