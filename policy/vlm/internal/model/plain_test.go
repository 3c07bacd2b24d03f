package model

import "math"

// The functions here are the definitions that the graphs are held against, in
// plain float64 loops: slow, and too simple to be wrong in the same way.

// plainLinear is x·Wᵀ + b for x [n, in] and w [out, in]. b may be nil.
func plainLinear(x, w, b []float64, in int) []float64 {
	n, out := len(x)/in, len(w)/in
	y := make([]float64, n*out)
	for i := range n {
		for o := range out {
			var sum float64
			for k := range in {
				sum += x[i*in+k] * w[o*in+k]
			}
			if b != nil {
				sum += b[o]
			}
			y[i*out+o] = sum
		}
	}
	return y
}

// perRow applies f to every run of width numbers.
func perRow(x []float64, width int, f func(row, dst []float64)) []float64 {
	y := make([]float64, len(x))
	for i := 0; i < len(x); i += width {
		f(x[i:i+width], y[i:i+width])
	}
	return y
}

func plainRMSNorm(x, w []float64, eps float64) []float64 {
	return perRow(x, len(w), func(row, dst []float64) {
		var square float64
		for _, v := range row {
			square += v * v
		}
		scale := 1 / math.Sqrt(square/float64(len(row))+eps)
		for i, v := range row {
			dst[i] = v * scale * w[i]
		}
	})
}

func plainLayerNorm(x, w, b []float64, eps float64) []float64 {
	return perRow(x, len(w), func(row, dst []float64) {
		n := float64(len(row))
		var mean, variance float64
		for _, v := range row {
			mean += v / n
		}
		for _, v := range row {
			variance += (v - mean) * (v - mean) / n
		}
		for i, v := range row {
			dst[i] = (v-mean)/math.Sqrt(variance+eps)*w[i] + b[i]
		}
	})
}

// plainRotate turns x [tokens, heads, width] by angles whose cosines and sines
// are [tokens, half]: pairs are (i, i + half), and features from 2·half on stay.
func plainRotate(x, cos, sin []float64, heads, width int) []float64 {
	half := len(cos) * heads * width / len(x)
	y := make([]float64, len(x))
	for i := range x {
		k := i % width
		token := i / (heads * width)
		at := token*half + k%half
		switch {
		case k < half:
			y[i] = x[i]*cos[at] - x[i+half]*sin[at]
		case k < 2*half:
			y[i] = x[i]*cos[at] + x[i-half]*sin[at]
		default:
			y[i] = x[i]
		}
	}
	return y
}

func plainSigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
func plainSilu(x float64) float64    { return x * plainSigmoid(x) }
func plainGELU(x float64) float64    { return x * (1 + math.Erf(x/math.Sqrt2)) / 2 }
func plainGELUTanh(x float64) float64 {
	return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

func each(x []float64, f func(float64) float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = f(v)
	}
	return y
}

func plus(a, b []float64) []float64 {
	y := make([]float64, len(a))
	for i := range a {
		y[i] = a[i] + b[i]
	}
	return y
}

// plainSoftmax of a row, in place.
func plainSoftmax(row []float64) {
	top := math.Inf(-1)
	for _, v := range row {
		top = max(top, v)
	}
	var sum float64
	for i, v := range row {
		row[i] = math.Exp(v - top)
		sum += row[i]
	}
	for i := range row {
		row[i] /= sum
	}
}

// plainAttention of q [tokens, heads, width] over k and v [tokens, kv, width].
// A token that attends to no token gets zeros.
func plainAttention(q, k, v []float64, heads, kv, width int, sees func(i, j int) bool) []float64 {
	n := len(q) / (heads * width)
	out := make([]float64, len(q))
	for i := range n {
		for h := range heads {
			g := h / (heads / kv)
			var who []int
			var score []float64
			for j := range n {
				if !sees(i, j) {
					continue
				}
				var dot float64
				for d := range width {
					dot += q[(i*heads+h)*width+d] * k[(j*kv+g)*width+d]
				}
				who, score = append(who, j), append(score, dot/math.Sqrt(float64(width)))
			}
			plainSoftmax(score)
			for s, j := range who {
				for d := range width {
					out[(i*heads+h)*width+d] += score[s] * v[(j*kv+g)*width+d]
				}
			}
		}
	}
	return out
}

// plainBlock is one transformer block on x [tokens, hidden]; weights are those
// of Block.Forward.
func plainBlock(b *Block, weights [][]float64, x, cos, sin []float64, sees func(i, j int) bool) []float64 {
	next := func(present bool) []float64 {
		if !present {
			return nil
		}
		w := weights[0]
		weights = weights[1:]
		return w
	}
	norm := func(x []float64) []float64 {
		w, bias := next(true), next(b.LayerNorm)
		if b.LayerNorm {
			return plainLayerNorm(x, w, bias, b.Eps)
		}
		return plainRMSNorm(x, w, b.Eps)
	}
	if b.PlusOne {
		weights = onePlus(weights, 0, 2, 3, 5)
	}
	n := len(x) / b.Hidden
	y := norm(x)
	qkv := plainLinear(y, next(true), next(b.QKVBias), b.Hidden)
	nq, nk := b.Heads*b.HeadDim, b.KVHeads*b.HeadDim
	var q, k, v, gate []float64
	for i := range n {
		row := qkv[i*len(qkv)/n:]
		if b.Gated { // of each head: query, gate
			var query []float64
			for h := range b.Heads {
				query = append(query, row[2*h*b.HeadDim:(2*h+1)*b.HeadDim]...)
				gate = append(gate, row[(2*h+1)*b.HeadDim:(2*h+2)*b.HeadDim]...)
			}
			row = append(query, row[2*nq:]...)
		}
		q, k, v = append(q, row[:nq]...), append(k, row[nq:nq+nk]...), append(v, row[nq+nk:nq+2*nk]...)
	}
	if b.QKNorm {
		q, k = plainRMSNorm(q, next(true), b.Eps), plainRMSNorm(k, next(true), b.Eps)
	}
	q, k = plainRotate(q, cos, sin, b.Heads, b.HeadDim), plainRotate(k, cos, sin, b.KVHeads, b.HeadDim)
	o := plainAttention(q, k, v, b.Heads, b.KVHeads, b.HeadDim, sees)
	for i, g := range gate {
		o[i] *= plainSigmoid(g)
	}
	mid := plus(x, plainLinear(o, next(true), next(b.OutBias), nq))
	up := plainLinear(norm(mid), next(true), next(b.MLPBias), b.Hidden)
	var act []float64
	if b.GELU {
		act = each(up, plainGELUTanh)
	} else {
		for i := range n {
			for j := range b.FF {
				act = append(act, plainSilu(up[i*2*b.FF+j])*up[i*2*b.FF+b.FF+j])
			}
		}
	}
	return plus(mid, plainLinear(act, next(true), next(b.MLPBias), b.FF))
}
