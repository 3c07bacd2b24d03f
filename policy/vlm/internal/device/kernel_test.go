package device_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/fused"
)

// product is x·wᵀ + 1, the product by a kernel.
func product(d *device.Device) *device.Program {
	return d.Fused("product", func(in []*graph.Node) ([]*graph.Node, []device.Kernel) {
		return []*graph.Node{graph.AddScalar(graph.DotGeneral(in[0], []int{1}, nil, in[1], []int{1}, nil), 1)}, nil
	})
}

// plain is x·wᵀ by a kernel.
func plain(d *device.Device) *device.Program {
	return d.Fused("plain product", func(in []*graph.Node) ([]*graph.Node, []device.Kernel) {
		return []*graph.Node{graph.DotGeneral(in[0], []int{1}, nil, in[1], []int{1}, nil)}, nil
	})
}

func draw(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 7))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// Kernels take the place of the products of any shape, the sums agree with those in
// float64, and they have the same bits without AVX-512. Every number of rows has its own
// way through the kernel, and so have lengths that vectors do not divide.
func TestKernelsMultiply(t *testing.T) {
	d := devicetest.Kernels(t)
	for _, rows := range []int{1, 2, 3, 4, 5, 6, 7, 13, fused.MaxRows} {
		for _, dims := range [][2]int{{1, 1}, {5, 3}, {8, 40}, {33, 7}, {64, 1001}, {576, 960}, {1000, 96}} {
			in, out := dims[0], dims[1]
			x, w := draw(rows*in, 1), draw(out*in, 2)
			p := product(d)
			got := first(t, p, put(t, d, x, rows, in), put(t, d, w, out, in))
			require.True(t, p.UsesKernels())
			before := fused.AllowAVX512(false)
			narrow := first(t, p, put(t, d, x, rows, in), put(t, d, w, out, in))
			fused.AllowAVX512(before)
			require.Equal(t, narrow, got, "%d rows, %d to %d", rows, in, out)
			for r := range rows {
				for o := range out {
					want, size := 1.0, 1.0
					for k := range in {
						z := float64(x[r*in+k]) * float64(w[o*in+k])
						want, size = want+z, size+math.Abs(z)
					}
					require.InDelta(t, want, got[r*out+o], 2e-6*size, "%d rows, %d to %d, row %d, output %d", rows, in, out, r, o)
				}
			}
		}
	}
}

// Positions of one, two or more rows have the bits of these rows alone.
func TestProductsHaveTheBitsOfFewerRows(t *testing.T) {
	d := devicetest.Kernels(t)
	for _, rows := range []int{1, 2, 4} {
		like := d.Fused("product like", func(in []*graph.Node) ([]*graph.Node, []device.Kernel) {
			return []*graph.Node{graph.DotGeneral(in[0], []int{1}, nil, in[1], []int{1}, nil)}, []device.Kernel{
				{Name: fused.Like, Config: []device.Setting{{Name: fused.RowBits, Value: int64(rows)}}}}
		})
		for _, dims := range [][2]int{{33, 7}, {91, 64}, {576, 96}} {
			in, out := dims[0], dims[1]
			x, w := draw(8*in, 1), draw(out*in, 2)
			got := first(t, like, put(t, d, x, 8, in), put(t, d, w, out, in))
			require.True(t, like.UsesKernels())
			for at := 0; at < 8; at += rows {
				want := first(t, plain(d), put(t, d, x[at*in:(at+rows)*in], rows, in), put(t, d, w, out, in))
				require.Equal(t, want, got[at*out:(at+rows)*out], "%d rows, %d to %d", rows, in, out)
			}
		}
	}
}

// Products of large matrices, whichever axes they sum over, are a kernel's with AVX-512, and have the same bits without.
// Sums longer than a slab, sizes that tiles do not divide, and more rows than a slab has are among them.
func TestKernelsMultiplyLargeMatrices(t *testing.T) {
	d := devicetest.Kernels(t)
	if !fused.Multiplies(256, 256, 64) {
		t.Skip("no AVX-512")
	}
	for _, axes := range [][2]int{{1, 1}, {1, 0}, {0, 0}, {0, 1}} {
		p := d.Fused("large product", func(in []*graph.Node) ([]*graph.Node, []device.Kernel) {
			return []*graph.Node{graph.DotGeneral(in[0], axes[:1], nil, in[1], axes[1:], nil)}, nil
		})
		for _, size := range [][3]int{{259, 300, 600}, {256, 256, 64}, {3079, 257, 65}} {
			m, n, k := size[0], size[1], size[2]
			x, w := matrix{draw(m*k, 1), m, k, axes[0] == 0}, matrix{draw(k*n, 2), k, n, axes[1] == 1}
			run := func() []float32 { return first(t, p, x.put(t, d), w.put(t, d)) }
			got := run()
			require.True(t, p.UsesKernels())
			before := fused.AllowAVX512(false)
			require.Equal(t, run(), got, "%v %v", axes, size)
			fused.AllowAVX512(before)
			for i := 0; i < len(got); i += 17 { // every row and column is among them
				want, sum := 0.0, 1.0
				for t := range k {
					z := x.at(i/n, t) * w.at(t, i%n)
					want, sum = want+z, sum+math.Abs(z)
				}
				require.InDelta(t, want, got[i], 2e-6*sum, "%v %v, number %d", axes, size, i)
			}
		}
	}
}

// matrix has so many rows and columns, and is transposed in memory or not.
type matrix struct {
	of            []float32
	rows, columns int
	transposed    bool
}

func (m matrix) at(row, column int) float64 {
	if m.transposed {
		return float64(m.of[column*m.rows+row])
	}
	return float64(m.of[row*m.columns+column])
}

func (m matrix) put(t *testing.T, d *device.Device) *device.Array {
	if m.transposed {
		return put(t, d, m.of, m.columns, m.rows)
	}
	return put(t, d, m.of, m.rows, m.columns)
}

// Other products stay XLA's: without AVX-512 those of many rows, those that sum over other axes, and
// those of programs that are not to have kernels.
func TestOtherProductsStay(t *testing.T) {
	d := devicetest.Kernels(t)
	defer fused.AllowAVX512(fused.AllowAVX512(false))
	n := fused.MaxRows + 1
	x, w := draw(n*n, 1), draw(n*n, 2)
	at := func(x []float32, row, column int) float64 { return float64(x[row*n+column]) }
	rows := func(in []*graph.Node, to int) *graph.Node { return graph.Slice(in[0], graph.AxisRange(0, to)) }
	for name, c := range map[string]struct {
		build func(in []*graph.Node) *graph.Node
		want  func(row, column, k int) float64
	}{
		"many rows": {func(in []*graph.Node) *graph.Node {
			return graph.DotGeneral(in[0], []int{1}, nil, in[1], []int{1}, nil)
		},
			func(i, j, k int) float64 { return at(x, i, k) * at(w, j, k) }},
		"w as it is": {func(in []*graph.Node) *graph.Node {
			return graph.DotGeneral(rows(in, 3), []int{1}, nil, in[1], []int{0}, nil)
		}, func(i, j, k int) float64 { return at(x, i, k) * at(w, k, j) }},
		"vectors": {func(in []*graph.Node) *graph.Node {
			return graph.DotGeneral(rows(in, 3), []int{1}, []int{0}, graph.Slice(in[1], graph.AxisRange(0, 3)), []int{1},
				[]int{0})
		}, func(i, _, k int) float64 { return at(x, i, k) * at(w, i, k) }},
	} {
		p := d.Fused(name, func(in []*graph.Node) ([]*graph.Node, []device.Kernel) { return []*graph.Node{c.build(in)}, nil })
		a, b := put(t, d, x, n, n), put(t, d, w, n, n)
		out, err := p.Run([]*device.Array{a, b})
		require.NoError(t, err)
		require.False(t, p.UsesKernels(), name)
		got, err := device.ReadNew[float32](out[0])
		require.NoError(t, err)
		columns := len(got) / out[0].Dims()[0]
		for i, g := range got {
			want := 0.0
			for k := range n {
				want += c.want(i/columns, i%columns, k)
			}
			require.InDelta(t, want, g, 1e-4, "%s, number %d", name, i)
		}
	}
	p := d.Program("plain", func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{graph.DotGeneral(rows(in, 1), []int{1}, nil, in[1], []int{1}, nil)}
	})
	first(t, p, put(t, d, x, n, n), put(t, d, w, n, n))
	require.False(t, p.UsesKernels())
}

// Results do not depend on the division of work among threads, or on other devices that
// use the threads at the same time.
func TestKernelsGiveTheSameBitsAgain(t *testing.T) {
	const in, out = 512, 4096
	var want [][]float32
	var group sync.WaitGroup
	devices := []*device.Device{devicetest.Kernels(t), devicetest.Kernels(t), devicetest.Kernels(t)}
	got := make([][][]float32, len(devices))
	run := func(d *device.Device, times int) (all [][]float32) {
		p := product(d)
		for range times {
			for _, rows := range []int{1, 3} {
				all = append(all, first(t, p, put(t, d, draw(rows*in, 3), rows, in), put(t, d, draw(out*in, 4), out, in)))
			}
		}
		return all
	}
	want = run(devices[0], 1)
	for i, d := range devices {
		group.Go(func() { got[i] = run(d, 10) })
	}
	group.Wait()
	for i := range got {
		for k, g := range got[i] {
			require.Equal(t, want[k%2], g)
		}
	}
}

// Numbers below the normal range are zero to every thread, as they are to XLA's.
func TestKernelsFlushDenormals(t *testing.T) {
	const in, out = 512, 4096
	d := devicetest.Kernels(t)
	x, w := make([]float32, in), make([]float32, out*in)
	for i := range w {
		w[i] = 1e-20
	}
	copy(x, w)
	for range 20 {
		for _, y := range first(t, plain(d), put(t, d, x, 1, in), put(t, d, w, out, in)) {
			require.Zero(t, y) // not 512 times 1e-40, which is in range
		}
	}
}

// A kernel that does not match the graph is not used, and the graph runs unchanged.
func TestGraphsRunWhereKernelsDoNotFit(t *testing.T) {
	d := devicetest.Kernels(t)
	p := d.Fused("misfit", func(in []*graph.Node) ([]*graph.Node, []device.Kernel) {
		y := graph.Add(in[0], in[1])
		z := graph.Mul(y, in[1])
		return []*graph.Node{y, z}, []device.Kernel{{Name: fused.Block, In: []*graph.Node{z, in[1]}, Out: []*graph.Node{y}}}
	})
	x, y := put(t, d, []float32{1, 2}, 1, 2), put(t, d, []float32{3, 5}, 1, 2)
	out, err := p.Run([]*device.Array{x, y})
	require.NoError(t, err)
	require.False(t, p.UsesKernels())
	got, err := device.ReadNew[float32](out[1])
	require.NoError(t, err)
	require.Equal(t, []float32{12, 35}, got)
}

// An error of a kernel is the program's error.
func TestKernelsRefuseWhatTheyDoNotKnow(t *testing.T) {
	d := devicetest.Kernels(t)
	p := d.Fused("refused", func(in []*graph.Node) ([]*graph.Node, []device.Kernel) {
		y := graph.Add(in[0], in[1])
		return []*graph.Node{y}, []device.Kernel{{Name: fused.Block, In: in, Out: []*graph.Node{y}}}
	})
	_, err := p.Run([]*device.Array{put(t, d, []float32{1, 2}, 1, 2), put(t, d, []float32{3, 5}, 1, 2)})
	require.ErrorContains(t, err, "attributes")
}

func first(t testing.TB, p *device.Program, in ...*device.Array) []float32 {
	t.Helper()
	out, err := p.Run(in)
	require.NoError(t, err)
	got, err := device.ReadNew[float32](out[0])
	require.NoError(t, err)
	device.FreeAll(append(in, out...)...)
	return got
}
