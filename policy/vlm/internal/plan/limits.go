package plan

import (
	"context"
	"math"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/net"
)

// Limits are the speeds that a machine reached with programs that do nothing else.
type Limits struct {
	BytesPerSecond float64 // of memory: the faster of reading an array and of copying it
	FLOPs          float64 // per second, in a large product of square matrices in the type of computation
}

// Probe is the work by which limits are measured.
type Probe struct {
	Numbers int // of an array in float32: far more than caches hold
	Side    int // of a matrix
	// of a measurement, which repeats a program so often; waiting for the result once is then negligible
	AtLeast time.Duration
}

// Measure measures the speeds of a device with work of a size.
func Measure(ctx context.Context, d *device.Device, compute dtypes.DType, size Probe) (l Limits, err error) {
	const width = 1 << 10
	table := shapes.Make(dtypes.Float32, size.Numbers/width, width)
	sums := stepOf(d, func(x, last *Node) *Node { return Add(ReduceSum(x, -1), MulScalar(last, 0.5)) })
	read, err := timeOf(ctx, d, size.AtLeast, sums, table, shapes.Make(dtypes.Float32, size.Numbers/width))
	if err != nil {
		return l, err
	}
	scaled := stepOf(d, func(x, last *Node) *Node { return Mul(last, BroadcastToShape(x, last.Shape())) })
	copied, err := timeOf(ctx, d, size.AtLeast, scaled, shapes.Make(dtypes.Float32, 1, 1), table)
	if err != nil {
		return l, err
	}
	square := shapes.Make(compute, size.Side, size.Side)
	product, err := timeOf(ctx, d, size.AtLeast, productOf(d), square, square)
	if err != nil {
		return l, err
	}
	bytes := float64(table.ByteSize())
	l.BytesPerSecond = max(bytes/read.Seconds(), 2*bytes/copied.Seconds())
	l.FLOPs = 2 * math.Pow(float64(size.Side), 3) / product.Seconds()
	return l, nil
}

// stepOf is the program that computes an array from x and its own last result, with the kernels for its products that
// the model's programs have.
func stepOf(d *device.Device, f func(x, last *Node) *Node) *device.Program {
	return d.Fused("limit", func(in []*Node) ([]*Node, []device.Kernel) { return []*Node{f(in[0], in[1])}, nil })
}

// productOf multiplies matrices, which are both read along their rows, as weights are.
func productOf(d *device.Device) *device.Program {
	return stepOf(d, func(x, last *Node) *Node { return DotGeneral(last, []int{1}, nil, x, []int{1}, nil) })
}

// timeOf returns the time of a program that computes an array from a constant one, x, and its own last
// result: the shortest of three measurements. Each result depends on the one before, so that the
// device cannot run them at the same time.
func timeOf(
	ctx context.Context, d *device.Device, atLeast time.Duration, step *device.Program, x, result shapes.Shape,
) (time.Duration, error) {
	s := &net.Scope{Dev: d}
	defer s.Free()
	start := net.Upload(s, []float32{0})
	if s.Err != nil {
		return 0, s.Err
	}
	// Numbers of about the size at which products of the matrix neither grow nor vanish.
	fill := d.Program("limit arrays", func(in []*Node) []*Node {
		numbers := func(to shapes.Shape) *Node {
			at := Add(Iota(in[0].Graph(), shapes.Make(dtypes.Float32, to.Size()), 0), BroadcastToDims(in[0], to.Size()))
			scale := math.Sqrt(2 / float64(to.Dimensions[to.Rank()-1]))
			return ConvertDType(Reshape(MulScalar(Cos(at), scale), to.Dimensions...), to.DType)
		}
		return []*Node{numbers(x), numbers(result)}
	})
	arrays, err := fill.Run([]*device.Array{start})
	if err != nil {
		return 0, err
	}
	s.Own(arrays...)
	one := d.Program("limit read", func(in []*Node) []*Node {
		x := Reshape(in[0], in[0].Shape().Size())
		return []*Node{ConvertDType(Slice(x, AxisRange(0, 1)), dtypes.Float32)}
	})
	last := arrays[1]
	run := func(n int) (time.Duration, error) {
		begin := time.Now()
		for range n {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			out, err := step.Run([]*device.Array{arrays[0], last}, 1)
			if err != nil {
				return 0, err
			}
			last = s.Own(out...)[0]
		}
		out, err := one.Run([]*device.Array{last})
		if err != nil {
			return 0, err
		}
		defer device.FreeAll(out...)
		_, err = device.ReadNew[float32](out[0])
		return time.Since(begin), err
	}
	if _, err := run(1); err != nil { // compiles
		return 0, err
	}
	once, err := run(1)
	if err != nil {
		return 0, err
	}
	n := 1 + int(atLeast/max(once, time.Microsecond))
	best := time.Duration(math.MaxInt64)
	for range 3 {
		took, err := run(n)
		if err != nil {
			return 0, err
		}
		best = min(best, took/time.Duration(n))
	}
	return max(best, 1), nil
}
