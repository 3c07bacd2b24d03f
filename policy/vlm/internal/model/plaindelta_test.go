package model

import (
	"math"
	"slices"
)

// onePlus adds one to some of the weights.
func onePlus(weights [][]float64, which ...int) [][]float64 {
	weights = slices.Clone(weights)
	for _, i := range which {
		weights[i] = each(weights[i], func(w float64) float64 { return 1 + w })
	}
	return weights
}

// plainDeltaNet is a layer with a gated delta rule on x [tokens, hidden], one token after the other. Tokens with the
// same row are neighbours.
func plainDeltaNet(d *deltaNet, weights [][]float64, x []float64, row []int) []float64 {
	w := onePlus(weights, 0, 7)
	l, c := d.Linear, d.Linear.Channels()
	values := l.ValueHeads * l.ValueDim
	width := c + values + 2*l.ValueHeads
	proj := plainLinear(plainRMSNorm(x, w[0], d.Eps), w[1], nil, d.Hidden)
	var mixed []float64
	states := make([][]float64, l.ValueHeads)
	for t := range row {
		if t == 0 || row[t] != row[t-1] {
			for h := range states {
				states[h] = make([]float64, l.KeyDim*l.ValueDim)
			}
		}
		y := make([]float64, c)
		for ch := range y {
			for j := range l.Kernel {
				if from := t - l.Kernel + 1 + j; from >= 0 && row[from] == row[t] {
					y[ch] += w[2][ch*l.Kernel+j] * proj[from*width+ch]
				}
			}
			y[ch] = plainSilu(y[ch])
		}
		rest := proj[t*width+c : (t+1)*width]
		for h, s := range states {
			key := h * l.KeyHeads / l.ValueHeads
			q, k := plainUnit(y[key*l.KeyDim:][:l.KeyDim]), plainUnit(y[(l.KeyHeads+key)*l.KeyDim:][:l.KeyDim])
			v := y[2*l.KeyHeads*l.KeyDim+h*l.ValueDim:][:l.ValueDim]
			beta := plainSigmoid(rest[values+h])
			decay := math.Exp(-math.Exp(w[3][h]) * math.Log1p(math.Exp(rest[values+l.ValueHeads+h]+w[4][h])))
			o := make([]float64, l.ValueDim)
			for j := range o {
				var had float64
				for i := range k {
					s[i*l.ValueDim+j] *= decay
					had += k[i] * s[i*l.ValueDim+j]
				}
				for i := range k {
					s[i*l.ValueDim+j] += k[i] * beta * (v[j] - had)
					o[j] += q[i] * s[i*l.ValueDim+j] / math.Sqrt(float64(l.KeyDim))
				}
			}
			for j, n := range plainRMSNorm(o, w[5], d.Eps) {
				mixed = append(mixed, n*plainSilu(rest[h*l.ValueDim+j]))
			}
		}
	}
	mid := plus(x, plainLinear(mixed, w[6], nil, values))
	up := plainLinear(plainRMSNorm(mid, w[7], d.Eps), w[8], nil, d.Hidden)
	var act []float64
	for i := range row {
		for j := range d.FF {
			act = append(act, plainSilu(up[i*2*d.FF+j])*up[i*2*d.FF+d.FF+j])
		}
	}
	return plus(mid, plainLinear(act, w[9], nil, d.FF))
}

func plainUnit(x []float64) []float64 {
	sum := deltaEps
	for _, v := range x {
		sum += v * v
	}
	return each(x, func(v float64) float64 { return v / math.Sqrt(sum) })
}
