package model

import (
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

// Three steps with a clipped gradient, against the formula in float64.
func TestAdamWFollowsItsFormula(t *testing.T) {
	const rate, beta1, beta2, eps, decay, scale = 0.01, 0.9, 0.99, 1e-6, 0.1, 0.4
	r := newSource(80)
	p, g := r.normal(0, 1, 3, 4), r.normal(0, 1, 3, 4)
	g.f[0], g.f[1] = 0, 1e-20 // nothing to divide by, and next to nothing
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		step := d.Program("step", func(in []*Node) []*Node {
			p, m, v := AdamW(in[0], in[1], in[2], in[3], in[4])
			return []*Node{p, m, v}
		})
		want := append([]float64{}, p.f...)
		m, v := make([]float64, 12), make([]float64, 12)
		now := []operand{p, {f: make([]float64, 12), dims: p.dims}, {f: make([]float64, 12), dims: p.dims}}
		for n := 1; n <= 3; n++ {
			opt := operand{f: make([]float64, OptParams), dims: []int{int(OptParams)}}
			fix1, fix2 := 1-math.Pow(beta1, float64(n)), 1-math.Pow(beta2, float64(n))
			for k, x := range map[OptParam]float64{OptRate: rate, OptBeta1: beta1, OptBeta2: beta2, OptEps: eps, OptDecay: decay,
				OptFix1: fix1, OptFix2: fix2, OptScale: scale} {
				opt.f[k] = x
			}
			out := runProgram(t, d, step, append(append([]operand{}, now...), g, opt))
			for i := range want {
				grad := scale * g.f[i]
				m[i], v[i] = beta1*m[i]+(1-beta1)*grad, beta2*v[i]+(1-beta2)*grad*grad
				want[i] -= rate*decay*want[i] + rate*(m[i]/fix1)/(math.Sqrt(v[i]/fix2)+eps)
			}
			for k, x := range [][]float64{want, m, v} {
				requireClose(t, "state", out[k], x, 1e-6, 1e-5)
				now[k] = floats(widen(out[k]), 3, 4)
			}
		}
	})
}

func TestSquareSums(t *testing.T) {
	r := newSource(81)
	a, b := r.normal(0, 1, 3, 4), r.normal(0, 1, 5)
	sum := func(x []float64) (s float64) {
		for _, v := range x {
			s += v * v
		}
		return s
	}
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		got := run(t, d, []operand{a, b}, func(in []*Node) []*Node { return []*Node{SquareSums(in), SquareSums(in[1:])} })
		requireClose(t, "two", got[0], []float64{sum(a.f), sum(b.f)}, 0, 1e-6)
		requireClose(t, "one", got[1], []float64{sum(b.f)}, 0, 1e-6)
		require.Len(t, got[1], 1)
	})
}
