package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/fused"
)

// The limit of a processor is the speed of the kernel that the model's products have on it.
func TestALimitIsMeasuredWithTheKernelsOfTheModel(t *testing.T) {
	d := devicetest.Kernels(t)
	const side = 256
	if !fused.Multiplies(side, side, side) {
		t.Skip("no AVX-512")
	}
	x, err := device.Put(d, make([]float32, side*side), side, side)
	require.NoError(t, err)
	p := productOf(d)
	out, err := p.Run([]*device.Array{x, x})
	require.NoError(t, err)
	device.FreeAll(append(out, x)...)
	require.True(t, p.UsesKernels())
}
