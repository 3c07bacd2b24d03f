package processor

import "math"

const (
	support   = 2.0 // of the cubic kernel, in source pixels when not shrinking
	precision = 22  // fractional bits of a weight: 32, less 8 of a pixel, less 2 of headroom
)

// cubic is the Catmull-Rom kernel (a = −1/2). Every product is rounded, so that
// machines with and without fused multiply-add give the same result.
func cubic(x float64) float64 {
	const a = -0.5
	x = math.Abs(x)
	switch {
	case x < 1:
		return float64(float64((float64((a+2)*x)-(a+3))*x)*x) + 1
	case x < 2:
		return float64((float64((float64((x-5)*x)+8)*x) - 4) * a)
	}
	return 0
}

// weights defines how each output pixel of one axis is computed: from length taps
// source pixels, beginning at start.
type weights struct {
	in, out int
	taps    int     // weights per output pixel, some of them unused
	start   []int32 // per output pixel
	count   []int32
	w       []int32 // [out, taps], in fractions of 1 << precision
}

// newWeights is Pillow's precompute_coeffs and normalize_coeffs_8bpc: the kernel is
// widened when shrinking, truncated at the border, normalised to sum 1 in float64
// and then rounded half away from zero.
func newWeights(in, out int) *weights {
	scale := float64(in) / float64(out)
	stretch := max(scale, 1)
	reach := support * stretch
	k := &weights{in: in, out: out, taps: int(math.Ceil(reach))*2 + 1}
	k.start = make([]int32, out)
	k.count = make([]int32, out)
	k.w = make([]int32, out*k.taps)
	inverse := 1 / stretch
	row := make([]float64, k.taps)
	for i := range out {
		center := float64((float64(i) + 0.5) * scale)
		first := max(int(center-reach+0.5), 0)
		last := min(int(center+reach+0.5), in)
		var sum float64
		for j := range last - first {
			row[j] = cubic(float64((float64(j+first) - center + 0.5) * inverse))
			sum += row[j]
		}
		for j := range last - first {
			v := row[j]
			if sum != 0 {
				v /= sum
			}
			k.w[i*k.taps+j] = int32(math.Trunc(float64(v*(1<<precision)) + math.Copysign(0.5, v)))
		}
		k.start[i], k.count[i] = int32(first), int32(last-first)
	}
	return k
}

// resize is Pillow's 8-bit bicubic resampling of an interleaved RGB image: first all
// rows, then all columns, each rounded to 8 bits. A pass that changes nothing is
// skipped. The result is in work's buffers or is src itself.
func (s *work) resize(src []byte, width, height, toWidth, toHeight int) []byte {
	if toWidth != width {
		s.across = grow(s.across, toWidth*height*3)
		resizeRows(s.across, src, width, height, s.weights(&s.kx, width, toWidth))
		src = s.across
	}
	if toHeight != height {
		s.down = grow(s.down, toWidth*toHeight*3)
		resizeColumns(s.down, src, toWidth, s.weights(&s.ky, height, toHeight))
		src = s.down
	}
	return src
}

// weights caches the last weights of an axis, because an environment's images usually have one size.
func (s *work) weights(kept **weights, in, out int) *weights {
	if *kept == nil || (*kept).in != in || (*kept).out != out {
		*kept = newWeights(in, out)
	}
	return *kept
}

func resizeRows(dst, src []byte, width, height int, k *weights) {
	at := 0
	for y := range height {
		row := src[y*width*3 : (y+1)*width*3]
		for i := range k.out {
			w := k.w[i*k.taps:][:k.count[i]]
			from := row[3*k.start[i]:][:3*len(w)]
			r, g, b := int32(1)<<(precision-1), int32(1)<<(precision-1), int32(1)<<(precision-1)
			for j, v := range w {
				p := from[3*j : 3*j+3]
				r += int32(p[0]) * v
				g += int32(p[1]) * v
				b += int32(p[2]) * v
			}
			out := dst[at : at+3]
			out[0], out[1], out[2] = clip(r), clip(g), clip(b)
			at += 3
		}
	}
}

// resizeColumns iterates over output rows and reads whole input rows, which uses the
// cache well.
func resizeColumns(dst, src []byte, width int, k *weights) {
	n := width * 3
	sums := make([]int32, n)
	for i := range k.out {
		for x := range sums {
			sums[x] = 1 << (precision - 1)
		}
		for j, v := range k.w[i*k.taps:][:k.count[i]] {
			row := src[(int(k.start[i])+j)*n:][:n]
			for x, p := range row {
				sums[x] += int32(p) * v
			}
		}
		out := dst[i*n : (i+1)*n]
		for x, v := range sums {
			out[x] = clip(v)
		}
	}
}

// clip drops the fractional bits and bounds to 0..255.
func clip(v int32) byte { return byte(min(max(v>>precision, 0), 255)) }

func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}
