package device_test

import (
	"testing"
	"unsafe"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

// On XLA outputs lie where the donated inputs of their shapes were, in the order of
// both, and nothing else changes: other inputs stay as they are, and outputs that do
// not go well with the places they get are right, too.
func TestOutputsAreWrittenOverDonatedInputs(t *testing.T) {
	const n = 1 << 12
	numbers := func(from float32) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = from + float32(i)
		}
		return x
	}
	for name, c := range map[string]struct {
		build  device.Builder
		donate []int
		want   [2]float32 // first numbers of the outputs
		at     [2]int     // inputs over which they are written
	}{
		"all in order": {func(in []*graph.Node) []*graph.Node {
			return []*graph.Node{graph.Add(in[0], in[1]), graph.Sub(in[0], in[1])}
		}, []int{0, 1}, [2]float32{110, -90}, [2]int{0, 1}},
		"one of them": {sum, []int{1}, [2]float32{110, -90}, [2]int{1, -1}},
		"crosswise": {func(in []*graph.Node) []*graph.Node {
			return []*graph.Node{graph.AddScalar(in[1], 1), graph.Reverse(in[0], 0)}
		}, []int{0, 1}, [2]float32{101, 10 + n - 1}, [2]int{0, 1}},
		"the other shape": {func(in []*graph.Node) []*graph.Node {
			return []*graph.Node{graph.Add(in[0], in[1]), graph.AddScalar(graph.Slice(in[0], graph.AxisRange(0, 3)), 1)}
		}, []int{2, 1}, [2]float32{110, 11}, [2]int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			devicetest.Each(t, func(t *testing.T, d *device.Device) {
				p := d.Program(name, c.build)
				for range 2 {
					in := []*device.Array{put(t, d, numbers(10)), put(t, d, numbers(100)), put(t, d, []float32{1, 2, 3})}
					dims := []shapes.Shape{in[0].Shape(), in[1].Shape(), in[2].Shape()}
					_, err := p.Prepare(dims, c.donate...)
					require.NoError(t, err)
					places := map[int]unsafe.Pointer{}
					for i, a := range in {
						places[i] = a.Place()
					}
					out, err := p.Run(in, c.donate...)
					require.NoError(t, err)
					require.Equal(t, 1, p.Executables(), "the one that was prepared")
					for k, o := range out {
						require.Equal(t, c.want[k], read[float32](t, o)[0])
						if i := c.at[k]; i >= 0 && !d.PureGo() && !d.Accelerator() {
							require.NotNil(t, places[i])
							require.Equal(t, places[i], o.Place(), "output %d", k)
						}
					}
					if len(c.donate) == 1 {
						require.Equal(t, numbers(10), read[float32](t, in[0]))
					}
					device.FreeAll(append(out, in...)...)
				}
				if _, bytes := d.Live(); bytes != 0 {
					t.Errorf("%d bytes are left", bytes)
				}
			})
		})
	}
}
