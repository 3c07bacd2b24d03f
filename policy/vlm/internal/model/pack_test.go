package model

import (
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/fused"
)

// unpackOf is a graph of what a packed matrix [out, in] stands for.
func unpackOf(to dtypes.DType, out int) device.Builder {
	return func(n []*Node) []*Node {
		var use StepKernels
		return []*Node{use.Unpack(PackMatrix(n[0], to), out)}
	}
}

// A number in bfloat16 is the nearest with 8 bits. One in int8 is within half a scale, which is a row's largest
// magnitude divided by 127, and rows of zeros stay.
func TestPackedMatricesAreTheNearestNumbers(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		for _, out := range []int{1, 64, 70} {
			const in = 12
			w := newSource(uint64(out)).normal(0, 1, out, in)
			clear(w.f[:in])
			half := run(t, d, []operand{w}, unpackOf(dtypes.BFloat16, out))[0]
			int8s := run(t, d, []operand{w}, unpackOf(dtypes.Int8, out))[0]
			for row := range out {
				most := 0.0
				for _, x := range w.f[row*in : (row+1)*in] {
					most = max(most, math.Abs(x))
				}
				for i, x := range w.f[row*in : (row+1)*in] {
					require.Equal(t, toBFloat16(float32(x)), half[row*in+i])
					require.InDelta(t, x, int8s[row*in+i], most/254*(1+1e-5))
				}
			}
		}
	})
}

// toBFloat16 rounds to the nearest bfloat16, ties to even.
func toBFloat16(x float32) float32 {
	b := math.Float32bits(x)
	return math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff)
}

// exactWeights draws a matrix that both types hold exactly: multiples of a power of two up to 127 times it, which every
// row has. It returns the multiples and the powers, too.
func exactWeights(r source, out, in int) (w operand, multiples []float32, scales []float32) {
	x := make([]float64, out*in)
	for row := range out {
		scale := math.Ldexp(1, -6-r.IntN(4))
		scales = append(scales, float32(scale))
		for i := range in {
			q := float64(r.IntN(255) - 127)
			if i == row%in {
				q = 127
			}
			multiples = append(multiples, float32(q))
			x[row*in+i] = q * scale
		}
	}
	return floats(x, out, in), multiples, scales
}

// twin is the kernels' product in plain Go: each output is one sum of fused multiplications and additions in the order
// of the inputs, or in int8 of blocks, multiplied by its scale.
func twin(x, multiples, scales []float32, in int, to dtypes.DType) []float32 {
	y := make([]float32, 0, len(x)/in*len(scales))
	for ; len(x) > 0; x = x[in:] {
		row, of, block := x[:in], []float32(nil), 1
		if to == dtypes.Int8 {
			block = 32
			row, of = roundTwin(row, block)
		}
		for o, scale := range scales {
			var s float32
			for k := 0; k < in; k += block {
				q, r, whole := multiples[o*in : (o+1)*in][k:min(k+block, in)], row[k:min(k+block, in)], float64(0)
				if of == nil {
					s = float32(math.FMA(float64(q[0]), float64(r[0]), float64(s)))
					continue
				}
				for i := range q {
					whole += float64(q[i]) * float64(r[i])
				}
				s = float32(math.FMA(whole, float64(of[k/block]), float64(s)))
			}
			y = append(y, s*scale)
		}
	}
	return y
}

// roundTwin rounds blocks of a row to multiples of a scale, their largest magnitude / 127.
func roundTwin(row []float32, block int) (multiples, scales []float32) {
	for part := range slices.Chunk(row, block) {
		var most float32
		for _, x := range part {
			most = max(most, float32(math.Abs(float64(x))))
		}
		scales = append(scales, most/127)
		for _, x := range part {
			multiples = append(multiples, float32(math.RoundToEven(float64(x)*float64(127/most))))
		}
	}
	return multiples, scales
}

// Products with packed matrices have the bits of a sum in plain Go for any number of rows, of outputs that fill no
// panel, with each set of instructions, and again.
func TestPackedProductsMultiply(t *testing.T) {
	d := devicetest.Kernels(t)
	for _, to := range []dtypes.DType{dtypes.BFloat16, dtypes.Int8} {
		for _, dims := range [][2]int{{4, 1}, {8, 65}, {40, 130}, {96, 512}} {
			in, out := dims[0], dims[1]
			r := newSource(uint64(in))
			w, multiples, scales := exactWeights(r, out, in)
			pack := d.Program("pack", func(n []*Node) []*Node { return []*Node{PackMatrix(n[0], to)} })
			packed, err := pack.Run([]*device.Array{w.put(t, d)})
			require.NoError(t, err)
			p := d.Fused("products", func(n []*Node) (y []*Node, use []device.Kernel) {
				for _, x := range n[1:] { // in one program, because compiling takes long
					var one StepKernels
					y, use = append(y, linear(x, one.Unpack(n[0], out), nil)), append(use, one...)
				}
				return y, use
			})
			x, want := packed, [][]float32{}
			for _, rows := range []int{1, 2, 3, 5, 8, 16, 33} {
				draw := r.normal(0, 1, rows, in)
				x, want = append(x, draw.put(t, d)), append(want, twin(narrow(draw.f), multiples, scales, in, to))
			}
			for _, wide := range []bool{true, false} {
				before := fused.AllowAVX512(wide)
				got := runAll(t, p, x)
				fused.AllowAVX512(before)
				require.True(t, p.UsesKernels())
				require.Equal(t, want, got, "%v, %d to %d, AVX-512 %v", to, in, out, wide)
			}
		}
	}
}

// The kernel's step of a block with packed weights is that of the graph, which unpacks them, for any number of rows, in
// int8 but for the rounding of its rows. Sizes are not those of panels, units and blocks.
func TestPackedBlocksDoWhatTheGraphDoes(t *testing.T) {
	d := devicetest.Kernels(t)
	b := &Block{Hidden: 40, Heads: 8, KVHeads: 2, HeadDim: 72, FF: 140, Eps: 1e-6, QKNorm: true, MLPBias: true,
		Causal:  true,
		Compute: dtypes.Float32}
	for _, to := range []dtypes.DType{dtypes.BFloat16, dtypes.Int8} {
		for _, rows := range []int{1, 3, 20} {
			s := newBlockStep(b, rows)
			s.packed = to
			s.check(t, d, map[string]*device.Program{"block": s.kernel(t, d)})
		}
	}
}
