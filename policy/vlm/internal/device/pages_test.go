package device_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

// Large pages change where memory is, not what is in it.
func TestHugePagesKeepTheContents(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		var arrays []*device.Array
		for i, n := range []int{1 << 20, 10, 3 << 20, 700_001} {
			arrays = append(arrays, put(t, d, draw(n, uint64(i))))
		}
		device.HugePages(append(arrays, arrays[2]))
		for i, a := range arrays {
			got, err := device.ReadNew[float32](a)
			require.NoError(t, err)
			require.Equal(t, draw(a.Size(), uint64(i)), got)
		}
		device.FreeAll(arrays...)
		device.HugePages(arrays) // freed arrays are passed over
		device.HugePages(nil)
	})
}
