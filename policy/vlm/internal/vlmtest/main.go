package vlmtest

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/plugin"
)

// Main runs the tests of a package on XLA where its plugin is installed, else on pure Go. They install
// nothing, unless XLA is required. What models of several tests, and processes of one test, have in
// common is compiled once: executables are kept in a folder, unless one is set.
func Main(m *testing.M) {
	if _, set := os.LookupEnv(plugin.NoInstall); !set && !devicetest.Required() {
		_ = os.Setenv(plugin.NoInstall, "1")
	}
	os.Exit(withExecutables(m.Run))
}

func withExecutables(run func() int) int {
	if _, set := os.LookupEnv(backend.CacheVariable); set || runtime.GOOS != "linux" { // where executables are not kept
		return run()
	}
	dir, err := os.MkdirTemp("", "executables")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	_ = os.Setenv(backend.CacheVariable, dir)
	return run()
}

// Backend is the backend for tests of numbers. Other tests use backend.Go, which
// compiles nothing.
func Backend() string {
	switch {
	case devicetest.Kind() == plugin.CUDA:
		return backend.CUDA
	case devicetest.Required():
		return backend.XLA
	}
	return backend.Auto
}

// Device opens a device on the test backend.
func Device(t testing.TB) *device.Device {
	t.Helper()
	d, err := backend.OpenDevice(t.Context(), Backend(), nil)
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

// OnCPU skips a test unless the test backend is XLA on a processor.
func OnCPU(t testing.TB) {
	t.Helper()
	if d := Device(t); d.PureGo() || d.Accelerator() {
		t.Skipf("the backend is %s", d.Name())
	}
}
