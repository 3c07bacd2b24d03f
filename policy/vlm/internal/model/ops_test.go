package model

import (
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

// The scale of rows differs, and the eps is large enough to be seen.
func TestGradientsOfNorms(t *testing.T) {
	const eps = 0.01
	r := newSource(2)
	rms := func(dims ...int) pair {
		x := r.normal(0.3, 1, dims...)
		for i := range x.f[:dims[len(dims)-1]] {
			x.f[i] = float64(float32(x.f[i] / 16)) // one row near eps
		}
		return pair{
			in: []operand{x, r.normal(1, 0.3, dims[len(dims)-1])}, wrt: []int{0, 1},
			forward: func(in []*Node) []*Node { return []*Node{rmsNorm(in[0], in[1], eps, false)} },
			back: func(in, dy []*Node) []*Node {
				dx, dw := rmsNormBack(dy[0], in[0], in[1], eps, false)
				return []*Node{dx, dw}
			},
			plain: func(in []operand) []operand {
				return []operand{{f: plainRMSNorm(in[0].f, in[1].f, eps), dims: dims}}
			},
		}
	}
	layer := pair{
		in: []operand{r.normal(0.5, 1, 4, 6), r.normal(1, 0.3, 6), r.normal(0, 1, 6)}, wrt: []int{0, 1, 2},
		forward: func(in []*Node) []*Node { return []*Node{layerNorm(in[0], in[1], in[2], eps)} },
		back: func(in, dy []*Node) []*Node {
			dx, dw, db := layerNormBack(dy[0], in[0], in[1], eps)
			return []*Node{dx, dw, db}
		},
		plain: func(in []operand) []operand {
			return []operand{{f: plainLayerNorm(in[0].f, in[1].f, in[2].f, eps), dims: []int{4, 6}}}
		},
	}
	onEach(t, map[string]pair{"RMS of rows": rms(4, 6), "RMS of heads": rms(3, 2, 8), "layer": layer})
}

func TestGradientsOfActivations(t *testing.T) {
	x := floats([]float64{-30, -6, -2.5, -1, -0.3, -0.001, 0, 0.001, 0.4, 1, 2, 3.5, 7, 30})
	elementwise := func(f, slope func(*Node) *Node, plain func(float64) float64) pair {
		return pair{
			in: []operand{x}, wrt: []int{0},
			forward: func(in []*Node) []*Node { return []*Node{f(in[0])} },
			back:    func(in, dy []*Node) []*Node { return []*Node{Mul(dy[0], slope(in[0]))} },
			plain:   func(in []operand) []operand { return []operand{{f: each(in[0].f, plain), dims: x.dims}} },
		}
	}
	onEach(t, map[string]pair{
		"silu":      elementwise(silu, siluBack, plainSilu),
		"gelu erf":  elementwise(geluErf, geluErfBack, plainGELU),
		"gelu tanh": elementwise(geluTanh, geluTanhBack, plainGELUTanh),
	})
}

// Rotating back by the same angles is the gradient of rotating.
func TestGradientsOfRotate(t *testing.T) {
	r := newSource(3)
	angle := r.normal(0, 2, 5, 3)
	cos, sin := floats(each(angle.f, math.Cos), 5, 3), floats(each(angle.f, math.Sin), 5, 3)
	onEach(t, map[string]pair{"": {
		in: []operand{r.normal(0, 1, 5, 2, 6), cos, sin}, wrt: []int{0},
		forward: func(in []*Node) []*Node { return []*Node{rotate(in[0], in[1], in[2])} },
		back:    func(in, dy []*Node) []*Node { return []*Node{rotate(dy[0], in[1], Neg(in[2]))} },
		plain: func(in []operand) []operand {
			return []operand{{f: plainRotate(in[0].f, in[1].f, in[2].f, 2, 6), dims: []int{5, 2, 6}}}
		},
	}})
}

func TestSoftmaxSurvivesLargeNumbers(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		x := floats([]float64{1e4, 1e4 - 1, -1e4, masked, masked, masked}, 2, 3)
		got := run(t, d, []operand{x}, func(in []*Node) []*Node { return []*Node{softmax(in[0])} })
		p := 1 / (1 + math.Exp(-1))
		requireClose(t, "softmax", got[0], []float64{p, 1 - p, 0, 1. / 3, 1. / 3, 1. / 3}, 1e-6, 0)
	})
}
