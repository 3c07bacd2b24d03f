package advantage

// Loops over plain numbers. Each has a vectorised version for float32 that gives
// the same bits, if the machine supports it.

// scale computes y = (x − shift)·by for each number.
func scale[T number](dst, x []T, shift, by float64) {
	if x, ok := any(x).([]float32); ok {
		scale32(any(dst).([]float32), x, shift, by)
		return
	}
	scaleAll(dst, x, shift, by)
}

func scaleAll[T number](dst, x []T, shift, by float64) {
	dst = dst[:len(x)]
	for t, v := range x {
		dst[t] = T((float64(v) - shift) * by)
	}
}

// scaleWhere is scale in place under the mask, and sets the rest to 0.
func scaleWhere[T number](x []T, mask []bool, shift, by float64) {
	if x, ok := any(x).([]float32); ok {
		scaleWhere32(x, mask, shift, by)
		return
	}
	scaleWhereAll(x, mask, shift, by)
}

func scaleWhereAll[T number](x []T, mask []bool, shift, by float64) {
	mask = mask[:len(x)]
	for t, v := range x {
		y := T((float64(v) - shift) * by)
		if !mask[t] {
			y = 0
		}
		x[t] = y
	}
}

// sum adds in float64 with eight partial sums, which hides the latency of additions. The
// order is fixed.
func sum[T number](x []T) float64 {
	if x, ok := any(x).([]float32); ok {
		return sum32(x)
	}
	return sumPartial(new([8]float64), x)
}

// sumPartial adds the numbers to the eight partial sums, and returns their total.
func sumPartial[T number](s *[8]float64, x []T) float64 {
	n := len(x) &^ 7
	for t := 0; t < n; t += 8 {
		x := (*[8]T)(x[t:])
		s[0] += float64(x[0])
		s[1] += float64(x[1])
		s[2] += float64(x[2])
		s[3] += float64(x[3])
		s[4] += float64(x[4])
		s[5] += float64(x[5])
		s[6] += float64(x[6])
		s[7] += float64(x[7])
	}
	for i, v := range x[n:] {
		s[i] += float64(v)
	}
	return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
}

// finite reports whether all numbers are finite.
func finite[T number](x []T) bool {
	if x, ok := any(x).([]float32); ok {
		return finite32(x)
	}
	return finiteAll(x)
}

// finiteAll adds x − x, which is 0 for finite numbers and NaN for others; a sum with a NaN
// is NaN. Four sums hide the latency of additions.
func finiteAll[T number](x []T) bool {
	var a, b, c, d T
	n := len(x) &^ 3
	for t := 0; t < n; t += 4 {
		x := (*[4]T)(x[t:])
		a += x[0] - x[0]
		b += x[1] - x[1]
		c += x[2] - x[2]
		d += x[3] - x[3]
	}
	for _, v := range x[n:] {
		a += v - v
	}
	return a+b+c+d == 0
}

// prepare sets advantages to 0 and returns to the given number, and reports
// whether rewards and values are finite.
func prepare[T number](r, v, adv, ret []T, unset T) bool {
	if r, ok := any(r).([]float32); ok {
		return prepare32(r, any(v).([]float32), any(adv).([]float32), any(ret).([]float32), float32(unset))
	}
	return prepareAll(r, v, adv, ret, unset)
}

func prepareAll[T number](r, v, adv, ret []T, unset T) bool {
	clear(adv)
	fill(ret, unset)
	return finiteAll(r) && finiteAll(v)
}
