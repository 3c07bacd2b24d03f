package vlm

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

// Tests run on XLA where its plugin is installed, else on pure Go. They install
// nothing, unless XLA is required.
func TestMain(m *testing.M) {
	if _, set := os.LookupEnv(plugin.NoInstall); !set && !devicetest.Required() {
		_ = os.Setenv(plugin.NoInstall, "1")
	}
	os.Exit(withExecutables(m.Run))
}

// withExecutables runs the tests with a folder of executables, unless one is set: what models of several
// tests, and processes of one test, have in common is compiled once.
func withExecutables(run func() int) int {
	if _, set := os.LookupEnv(CompileCacheVariable); set || runtime.GOOS != "linux" { // where executables are not kept
		return run()
	}
	dir, err := os.MkdirTemp("", "executables")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	_ = os.Setenv(CompileCacheVariable, dir)
	return run()
}

// testBackend is the backend for tests of numbers. Other tests use backend.Go, which
// compiles nothing.
func testBackend() string {
	switch {
	case devicetest.Kind() == plugin.CUDA:
		return backend.CUDA
	case devicetest.Required():
		return backend.XLA
	}
	return backend.Auto
}

// testDevice opens a device on the test backend.
func testDevice(t testing.TB) *device.Device {
	t.Helper()
	d, err := backend.Device(t.Context(), testBackend(), nil)
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

func TestXLAIsInstalledWhereItIsRequired(t *testing.T) {
	d := testDevice(t)
	require.True(t, !devicetest.Required() || !d.PureGo(), "the backend is %s", d.Name())
}
