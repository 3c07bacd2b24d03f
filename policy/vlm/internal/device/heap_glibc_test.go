//go:build linux && cgo

package device

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReuseEndsWithItsLastCaller, and does not begin for a small model.
func TestReuseEndsWithItsLastCaller(t *testing.T) {
	d := &Device{library: &library{name: "xla:cpu"}}
	d.Reuse()()
	require.Zero(t, reusing.callers)
	d.bytes.Store(1 << 30)
	first, second := d.Reuse(), d.Reuse()
	require.Equal(t, 2, reusing.callers)
	first()
	require.Equal(t, 1, reusing.callers)
	second()
	require.Zero(t, reusing.callers)
}
