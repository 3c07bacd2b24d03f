package proof

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKernelsAreACause: without the kernels of policy/vlm the last bits differ, as with another plugin.
func TestKernelsAreACause(t *testing.T) {
	a, b := &Facts{}, &Facts{Kernels: "0"}
	found := Bisection{First: new(Finding), Facts: a.MachineDifferences(b)}
	found.explain()
	require.Contains(t, found.Cause, "plugin or backend: VAGEN_KERNELS: ")
}
