package device_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/gotype"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

// sum returns the sum and the difference of two inputs.
func sum(in []*graph.Node) []*graph.Node {
	return []*graph.Node{graph.Add(in[0], in[1]), graph.Sub(in[0], in[1])}
}

func put[T gotype.Supported](t testing.TB, d *device.Device, data []T, dims ...int) *device.Array {
	t.Helper()
	a, err := device.Put(d, data, dims...)
	require.NoError(t, err)
	return a
}

func read[T gotype.Supported](t testing.TB, a *device.Array) []T {
	t.Helper()
	x, err := device.ReadNew[T](a)
	require.NoError(t, err)
	return x
}

func roundTrip[T gotype.Supported](t *testing.T, d *device.Device, data []T) {
	t.Helper()
	a := put(t, d, data, len(data)/2, 2)
	require.Equal(t, []int{len(data) / 2, 2}, a.Dims())
	require.Equal(t, len(data), a.Size())
	require.Equal(t, dtypes.FromGenericsType[T](), a.DType())
	require.EqualValues(t, len(data)*a.DType().Size(), a.Bytes())
	require.Equal(t, data, read[T](t, a))
	a.Free()
	s, err := device.Scalar(d, data[0])
	require.NoError(t, err)
	require.Empty(t, s.Dims())
	require.Equal(t, data[:1], read[T](t, s))
	s.Free()
}

func TestNumbersSurviveTheDevice(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		roundTrip(t, d, []float32{1, -2.5, 3e-38, 4})
		roundTrip(t, d, []int32{1, -2, 1 << 30, 4})
		roundTrip(t, d, []uint32{1, 2, 1 << 31, 4})
		roundTrip(t, d, []uint8{1, 2, 255, 0})
		roundTrip(t, d, []bool{true, false, false, true})
	})
}

func TestProgramsRunAndCompileOncePerShape(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		p := d.Program("sum", sum)
		require.Zero(t, p.Executables())
		before := d.CompileTime()
		for range 3 {
			a, b := put(t, d, []float32{1, 2}), put(t, d, []float32{10, 20})
			out, err := p.Run([]*device.Array{a, b})
			require.NoError(t, err)
			require.Equal(t, []float32{11, 22}, read[float32](t, out[0]))
			require.Equal(t, []float32{-9, -18}, read[float32](t, out[1]))
			require.Equal(t, []float32{1, 2}, read[float32](t, a), "inputs stay")
		}
		require.Equal(t, 1, p.Executables())
		require.Greater(t, d.CompileTime(), before)
		for _, in := range [][]*device.Array{
			{put(t, d, []float32{1, 2}, 1, 2), put(t, d, []float32{3, 4}, 1, 2)}, // another rank
			{put(t, d, []int32{1, 2}), put(t, d, []int32{3, 4})},                 // another type
		} {
			_, err := p.Run(in)
			require.NoError(t, err)
		}
		require.Equal(t, 3, p.Executables())
	})
}

// A donated input is gone, the others stay, and results hold.
func TestDonatedInputsAreConsumed(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		p := d.Program("sum", sum)
		acc := put(t, d, []float32{0, 0})
		one := put(t, d, []float32{1, 2})
		for range 5 {
			out, err := p.Run([]*device.Array{acc, one}, 0)
			require.NoError(t, err)
			require.ErrorIs(t, device.Read(acc, make([]float32, 2)), device.ErrClosed)
			out[1].Free()
			acc = out[0]
		}
		require.Equal(t, []float32{5, 10}, read[float32](t, acc))
		require.Equal(t, []float32{1, 2}, read[float32](t, one))

		for _, in := range [][]*device.Array{{one, one}, {acc, one, one}} {
			_, err := p.Run(in, len(in)-1)
			require.ErrorContains(t, err, "is also passed as another input")
			require.Equal(t, []float32{1, 2}, read[float32](t, one), "it is still there")
		}
	})
}

func TestPanicsOfGraphsBecomeErrors(t *testing.T) {
	cause := errors.New("no such thing")
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		x := []*device.Array{put(t, d, []float32{1, 2})}
		for _, c := range []struct {
			name  string
			build device.Builder
			want  string
		}{
			{"an error", func([]*graph.Node) []*graph.Node { panic(fmt.Errorf("building: %w", cause)) }, "no such thing"},
			{"a string", func([]*graph.Node) []*graph.Node { panic("text") }, "text"},
			{"shapes that do not fit", func(in []*graph.Node) []*graph.Node {
				return []*graph.Node{graph.Add(in[0], graph.Const(in[0].Graph(), []float32{1, 2, 3}))}
			}, "device: compile"},
		} {
			p := d.Program(c.name, c.build)
			_, err := p.Run(x)
			require.ErrorContains(t, err, c.name)
			require.ErrorContains(t, err, c.want)
			require.Zero(t, p.Executables())
		}
		_, err := d.Program("cause", func([]*graph.Node) []*graph.Node { panic(fmt.Errorf("building: %w", cause)) }).Run(x)
		require.ErrorIs(t, err, cause)
		// The device works on.
		out, err := d.Program("sum", sum).Run([]*device.Array{x[0], x[0]})
		require.NoError(t, err)
		require.Equal(t, []float32{2, 4}, read[float32](t, out[0]))
	})
}

func TestMisuseIsAnError(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		_, err := device.Put(d, []float32{1, 2, 3}, 2, 2)
		require.ErrorContains(t, err, "3 numbers, shape [2 2] needs another count")
		a := put(t, d, []float32{1, 2})
		require.ErrorContains(t, device.Read(a, make([]float32, 3)), "2 numbers, but the slice has length 3")
		require.Error(t, device.Read(a, make([]int32, 2)), "another type")
		require.Equal(t, []float32{1, 2}, read[float32](t, a))

		a.Free()
		a.Free() // again: nothing
		(*device.Array)(nil).Free()
		device.FreeAll(nil, a)
		_, err = device.ReadNew[float32](a)
		require.ErrorIs(t, err, device.ErrClosed)
		require.ErrorIs(t, device.Read[float32](nil, nil), device.ErrClosed)
		b := put(t, d, []float32{1, 2})
		_, err = d.Program("sum", sum).Run([]*device.Array{b, a})
		testkit.Error(t, err, device.ErrClosed, "program sum: input 1 has been freed")
		_, err = d.Program("sum", sum).Run([]*device.Array{nil, b})
		require.ErrorIs(t, err, device.ErrClosed)
	})
}

func TestClosedDevicesRefuseToRun(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		p := d.Program("sum", sum)
		a := put(t, d, []float32{1, 2})
		_, err := p.Run([]*device.Array{a, a})
		require.NoError(t, err)
		d.Close()
		d.Close()
		_, err = p.Run([]*device.Array{a, a})
		require.ErrorIs(t, err, device.ErrClosed)
		require.Zero(t, p.Executables())
	})
}

func TestDevicesServeSeveralGoroutines(t *testing.T) { runInParallel(t, devicetest.Go(t)) }

// runInParallel uses a device from several goroutines at once.
func runInParallel(t *testing.T, d *device.Device) {
	p := d.Program("sum", sum)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for g := range errs {
		wg.Go(func() {
			for i := range 20 {
				x, err := device.Put(d, []float32{float32(g), float32(i)})
				y, err2 := device.Put(d, []float32{float32(g), float32(i)})
				if err = errors.Join(err, err2); err != nil {
					errs[g] = err
					return
				}
				out, err := p.Run([]*device.Array{x, y}, 1)
				x.Free()
				if err == nil {
					var got []float32
					if got, err = device.ReadNew[float32](out[0]); err == nil && (got[0] != float32(2*g) || got[1] != float32(2*i)) {
						err = fmt.Errorf("%d + %d is %v", g, i, got)
					}
					device.FreeAll(out...)
				}
				if err != nil {
					errs[g] = err
					return
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

func TestLiveArraysAreCounted(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		live := func(arrays, bytes int64) {
			t.Helper()
			n, b := d.Live()
			require.Equal(t, []int64{arrays, bytes}, []int64{n, b})
		}
		a, b := put(t, d, []float32{1, 2, 3}), put(t, d, []float32{4, 5, 6})
		live(2, 24)
		out, err := d.Program("sum", sum).Run([]*device.Array{a, b}, 1)
		require.NoError(t, err)
		live(3, 36) // b is consumed
		b.Free()
		out[0].Free()
		out[0].Free()
		live(2, 24)
		s, err := device.Scalar(d, int32(7))
		require.NoError(t, err)
		live(3, 28)
		device.FreeAll(a, s, out[1])
		live(0, 0)
	})
}

// What has not run for the longest time makes room, whichever program it is of, and
// is compiled again when it is wanted.
func TestOldExecutablesAreEvicted(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		d.Keep(3)
		p, q := d.Program("sum", sum), d.Program("another sum", sum)
		run := func(p *device.Program, n int) {
			t.Helper()
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(i)
			}
			a := put(t, d, x)
			out, err := p.Run([]*device.Array{a, a})
			require.NoError(t, err)
			require.EqualValues(t, 2*(n-1), read[float32](t, out[0])[n-1])
			device.FreeAll(a, out[0], out[1])
		}
		run(p, 1)
		run(p, 2)
		run(q, 1)
		require.Equal(t, 3, d.Executables())
		run(p, 1) // so that p has not run with 2 for the longest time
		run(q, 2)
		require.Equal(t, []int{3, 1, 2}, []int{d.Executables(), p.Executables(), q.Executables()})
		spent := d.CompileTime()
		run(p, 1)
		run(q, 1)
		run(q, 2)
		require.Equal(t, spent, d.CompileTime(), "these were kept")
		run(p, 2)
		require.Greater(t, d.CompileTime(), spent)
		require.Equal(t, []int{3, 1, 2}, []int{d.Executables(), p.Executables(), q.Executables()})
		for n := range 20 {
			run(p, n+3)
		}
		require.Equal(t, []int{3, 3, 0}, []int{d.Executables(), p.Executables(), q.Executables()})
		d.FreeIdle()
		require.Equal(t, []int{0, 0, 0}, []int{d.Executables(), p.Executables(), q.Executables()})
		run(q, 1)
		require.Equal(t, 1, d.Executables())
		d.Close()
		require.Zero(t, d.Executables())
	})
}

// Prepared programs run as others do, whichever is compiled first; Prepare tells the
// shapes of outputs, and what is wrong is an error there and of each Run.
func TestPreparedProgramsRunWithoutCompilingAgain(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		programs := make([]*device.Program, 6)
		a := put(t, d, []float32{1, 2, 3})
		defer a.Free()
		for i := range programs {
			programs[i] = d.Program(fmt.Sprint("sum ", i), sum)
			for range 2 {
				dims, err := programs[i].Prepare([]shapes.Shape{a.Shape(), a.Shape()})
				require.NoError(t, err)
				require.Len(t, dims, 2)
				require.True(t, a.Shape().Equal(dims[1]))
			}
		}
		require.Len(t, d.Unused(), len(programs))
		for _, p := range programs {
			out, err := p.Run([]*device.Array{a, a})
			require.NoError(t, err)
			require.Equal(t, []float32{2, 4, 6}, read[float32](t, out[0]))
			device.FreeAll(out...)
			require.Equal(t, 1, p.Executables())
		}
		require.Empty(t, d.Unused())

		bad := d.Program("bad", func(in []*graph.Node) []*graph.Node { panic(errors.New("no such thing")) })
		for range 2 {
			_, err := bad.Prepare([]shapes.Shape{a.Shape()})
			require.ErrorContains(t, err, "no such thing")
			_, err = bad.Run([]*device.Array{a})
			require.ErrorContains(t, err, "no such thing")
			require.Zero(t, bad.Executables())
		}
		require.Equal(t, len(programs), d.Executables())
	})
}

// Close waits for compilers in the background, and nothing is prepared after it.
func TestCloseWaitsForWhatIsBeingPrepared(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		a := put(t, d, []float32{1})
		for i := range 4 {
			_, err := d.Program(fmt.Sprint("sum ", i), sum).Prepare([]shapes.Shape{a.Shape(), a.Shape()})
			require.NoError(t, err)
		}
		late := d.Program("late", sum)
		a.Free()
		d.Close()
		require.Zero(t, d.Executables())
		_, err := late.Prepare([]shapes.Shape{a.Shape(), a.Shape()})
		require.ErrorIs(t, err, device.ErrClosed)
	})
}
