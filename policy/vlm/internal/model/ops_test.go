package model

import (
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

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

func TestSoftmaxSurvivesLargeNumbers(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		x := floats([]float64{1e4, 1e4 - 1, -1e4, masked, masked, masked}, 2, 3)
		got := run(t, d, []operand{x}, func(in []*Node) []*Node { return []*Node{softmax(in[0])} })
		p := 1 / (1 + math.Exp(-1))
		requireClose(t, "softmax", got[0], []float64{p, 1 - p, 0, 1. / 3, 1. / 3, 1. / 3}, 1e-6, 0)
	})
}
