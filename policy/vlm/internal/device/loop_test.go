package device_test

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

const loopSlots, loopWidth = 512, 32

// advance writes x to slot at of the cache, and computes the next x from the weights w and
// the sum of the cache.
func advance(w, x, cache, at *Node) (y, longer *Node) {
	g := x.Graph()
	zero := Const(g, int32(0))
	longer = DynamicUpdateSlice(cache, x, []*Node{at, zero})
	y = DotGeneral(x, []int{1}, nil, w, []int{1}, nil)
	return Tanh(Add(y, ReduceAndKeep(longer, ReduceSum, 0))), longer
}

// single is one iteration: w, x, cache, at → x, cache.
func single(d *device.Device) *device.Program {
	return d.Fused("single", func(in []*Node) ([]*Node, []device.Kernel) {
		y, cache := advance(in[0], in[1], in[2], in[3])
		return []*Node{y, cache}, nil
	})
}

// looped is several iterations of single: also w and at + 1 of the graph outside the loop,
// and the first number of every x.
func looped(d *device.Device, times int) *device.Program {
	return d.Fused("looped", func(in []*Node) ([]*Node, []device.Kernel) {
		g := in[0].Graph()
		start := append([]*Node{Zeros(g, shapes.Make(dtypes.Float32, 1, times))}, in...)
		out := device.Repeat(times, start, func(i *Node, now []*Node) []*Node {
			firsts, w, x, cache, at := now[0], now[1], now[2], now[3], now[4]
			x, cache = advance(w, x, cache, Add(at, i))
			first := Slice(x, AxisRange(), AxisRange(0, 1))
			firsts = DynamicUpdateSlice(firsts, first, []*Node{Const(g, int32(0)), i})
			return []*Node{firsts, w, x, cache, at}
		})
		return []*Node{out[2], out[3], out[0], MulScalar(out[0], 2), Add(in[3], Const(g, int32(1)))}, nil
	})
}

// runLoop runs the loop once, or single as often, and returns x, the cache and the first
// number of every x.
func runLoop(t *testing.T, d *device.Device, times int, once bool) (x, cache, firsts []float32) {
	const at = 3
	w := put(t, d, draw(loopWidth*loopWidth, 1), loopWidth, loopWidth)
	in := []*device.Array{w, put(t, d, draw(loopWidth, 2), 1, loopWidth),
		put(t, d, draw(loopSlots*loopWidth, 3), loopSlots, loopWidth)}
	if once {
		from, err := device.Scalar(d, int32(at))
		require.NoError(t, err)
		p := looped(d, times)
		place := in[2].Place()
		out, err := p.Run(append(in, from), 2)
		require.NoError(t, err)
		if !d.Accelerator() {
			require.Equal(t, place, out[1].Place(), "the cache is updated in place")
		}
		require.Equal(t, int32(at+1), read[int32](t, out[4])[0])
		for i, y := range read[float32](t, out[3]) {
			require.Equal(t, 2*read[float32](t, out[2])[i], y)
		}
		return read[float32](t, out[0]), read[float32](t, out[1]), read[float32](t, out[2])
	}
	p := single(d)
	for i := range times {
		from, err := device.Scalar(d, int32(at+i))
		require.NoError(t, err)
		out, err := p.Run(append(in, from), 2)
		require.NoError(t, err)
		in[1], in[2] = out[0], out[1]
		firsts = append(firsts, read[float32](t, out[0])[0])
	}
	return read[float32](t, in[1]), read[float32](t, in[2]), firsts
}

// xlaDevice opens XLA; without it the test is skipped.
func xlaDevice(t *testing.T) *device.Device {
	d := devicetest.Best(t)
	if d.PureGo() {
		t.Skip("no XLA")
	}
	return d
}

// A loop on the device computes what as many programs do, to the bit, with the products by
// kernels where there are any, and writes over what it was given.
func TestLoopsEqualRepeatedPrograms(t *testing.T) {
	d := xlaDevice(t)
	for _, times := range []int{1, 2, 8} {
		x, cache, firsts := runLoop(t, d, times, false)
		lx, lcache, lfirsts := runLoop(t, d, times, true)
		require.Equal(t, x, lx, "%d", times)
		require.Equal(t, cache, lcache, "%d", times)
		require.Equal(t, firsts, lfirsts, "%d", times)
	}
}
