package device_test

import (
	"sync"
	"testing"
	"testing/fstest"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

func TestPeersRunTheSameProgramOnArraysOfTheirOwn(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		if !d.PureGo() && d.Count() < 2 {
			t.Skipf("%s has one device", d.Name())
		}
		peers, err := d.Peers(2)
		require.NoError(t, err)
		require.Same(t, d, peers[0])
		double := d.Program("double", func(in []*graph.Node) []*graph.Node { return []*graph.Node{graph.Add(in[0], in[0])} })

		a := put(t, d, []float32{1, 2, 3})
		b, err := device.Copy(a, peers[1])
		require.NoError(t, err)
		out, err := double.Run([]*device.Array{b}, 0) // consumes the copy, not the original
		require.NoError(t, err)
		require.Equal(t, []float32{2, 4, 6}, read[float32](t, out[0]))
		require.Equal(t, []float32{1, 2, 3}, read[float32](t, a))
		for _, p := range peers {
			arrays, bytes := p.Live()
			require.Equal(t, []int64{1, 12}, []int64{arrays, bytes})
		}

		add := d.Program("add", func(in []*graph.Node) []*graph.Node { return []*graph.Node{graph.Add(in[0], in[1])} })
		_, err = add.Run([]*device.Array{a, out[0]})
		require.ErrorContains(t, err, "program add: input 1 is on device")
		device.FreeAll(a, out[0])
		_, err = device.Copy(a, peers[1])
		require.ErrorIs(t, err, device.ErrClosed)

		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i, p := range peers {
			wg.Go(func() {
				for range 20 {
					in, err := device.Put(p, []float32{1, 2, 3})
					if err == nil {
						var out []*device.Array
						if out, err = double.Run([]*device.Array{in}); err == nil {
							out[0].Free()
						}
						in.Free()
					}
					if err != nil {
						errs[i] = err
					}
				}
			})
		}
		wg.Wait()
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		require.LessOrEqual(t, double.Executables(), 2, "one without and one with a consumed input")
	})
}

func TestPeersAreChecked(t *testing.T) {
	d := devicetest.Best(t)
	_, err := d.Peers(0)
	require.ErrorContains(t, err, "0 devices of "+d.Name())
	if !d.PureGo() {
		_, err = d.Peers(d.Count() + 1)
		require.ErrorContains(t, err, "must be from 1 to")
	}
}

func TestUnequalGPUsAreFound(t *testing.T) {
	gpu := func(model, uuid string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("Model: \t\t " + model + "\nIRQ:   12\nGPU UUID: \t " + uuid + "\n")}
	}
	driver := fstest.MapFS{"0/information": gpu("NVIDIA H100", "GPU-a"), "1/information": gpu("NVIDIA A100", "GPU-b"),
		"2/information": gpu("NVIDIA H100", "GPU-c")}
	err := device.EqualGPUs(driver, "")
	require.ErrorContains(t, err, "GPUs are of different models, NVIDIA A100 and NVIDIA H100; select equal ones with CUDA_VISIBLE_DEVICES")
	require.NoError(t, device.EqualGPUs(driver, "GPU-a,GPU-c"))
	require.Error(t, device.EqualGPUs(driver, "GPU-a,GPU-b"))
	require.NoError(t, device.EqualGPUs(driver, "0,2"))
	require.NoError(t, device.EqualGPUs(fstest.MapFS{}, ""), "no driver that lists them")
}
