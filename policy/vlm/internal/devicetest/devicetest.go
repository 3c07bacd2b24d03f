// Package devicetest opens devices for tests of graphs: GoMLX's pure-Go backend,
// and XLA on the CPU if its plugin is installed. With VAGEN_TEST_BACKEND=cuda XLA
// runs on an NVIDIA GPU instead, and tests fail if it is missing.
//
// Set VAGEN_REQUIRE_XLA=1 where the plugin is required, such as in continuous
// integration: it is then installed, and tests fail if that is not possible. By
// default nothing is installed, and tests without a plugin use pure Go only.
package devicetest

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/gobackend"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/fused"
	"vagen/policy/vlm/internal/plugin"
)

// Environment variables.
const (
	requireXLA  = "VAGEN_REQUIRE_XLA"  // 1 turns a missing plugin into a failure
	testBackend = "VAGEN_TEST_BACKEND" // cuda has XLA use a GPU
)

// Unoptimized is the environment variable with which XLA leaves out what LLVM does to optimise code, which takes most
// of a compilation. It is for tests of what comes before that: XLA's instructions, files of executables, bytes that
// devices share, and numbers within tolerances.
const Unoptimized = xlaFlags + "=" + unoptimized

const (
	xlaFlags    = "XLA_FLAGS"
	unoptimized = "--xla_backend_optimization_level=0"
)

// WithoutLLVM has XLA leave out what LLVM does in the tests of this process, unless XLA's flags are set.
// It must be called before a device is opened.
func WithoutLLVM() {
	if os.Getenv(xlaFlags) == "" {
		_ = os.Setenv(xlaFlags, unoptimized)
	}
}

// Required reports whether tests must run on XLA.
func Required() bool { return os.Getenv(requireXLA) == "1" || Kind() == plugin.CUDA }

// Kind is the hardware on which XLA runs.
func Kind() plugin.Kind {
	if os.Getenv(testBackend) == string(plugin.CUDA) {
		return plugin.CUDA
	}
	return plugin.CPU
}

// errMissing means that this machine, or this build, has no XLA.
var errMissing = errors.New("no XLA")

var pure = sync.OnceValues(func() (compute.Backend, error) { return gobackend.New("ops_sequential") })

// Go opens a device on the pure-Go backend. It is closed when the test ends.
func Go(t testing.TB) *device.Device {
	t.Helper()
	b, err := pure()
	if err != nil {
		t.Fatalf("devicetest: %v", err)
	}
	return open(t, b, "go")
}

func open(t testing.TB, b compute.Backend, name string) *device.Device {
	d := device.New(b, name)
	t.Cleanup(d.Close)
	return d
}

// withXLA returns XLA's device and whether there is one.
func withXLA(t testing.TB) (*device.Device, bool) {
	t.Helper()
	b, err := xlaBackend()
	switch {
	case err == nil:
		return open(t, b, "xla:"+string(Kind())), true
	case errors.Is(err, errMissing) && !Required():
		return nil, false
	}
	t.Fatalf("devicetest: %v", err)
	return nil, false
}

// Each runs the test on every backend of this machine: pure Go, and XLA if it is
// installed.
func Each(t *testing.T, f func(t *testing.T, d *device.Device)) {
	t.Helper()
	t.Run("go", func(t *testing.T) { f(t, Go(t)) })
	if d, ok := withXLA(t); ok {
		t.Run("xla", func(t *testing.T) { f(t, d) })
	}
}

// Best opens XLA if it is installed, else pure Go.
func Best(t testing.TB) *device.Device {
	t.Helper()
	if d, ok := withXLA(t); ok {
		return d
	}
	return Go(t)
}

// Kernels opens a device whose programs may call kernels. Without kernels the test is
// skipped, or fails if XLA is required and the processor supports them.
func Kernels(t testing.TB) *device.Device {
	t.Helper()
	d := Best(t)
	switch {
	case !d.PureGo() && !d.Accelerator() && fused.Registered():
		return d
	case Required() && Kind() == plugin.CPU && fused.Able():
		t.Fatal("devicetest: the plugin did not accept the kernels")
	}
	t.Skip("no kernels on this machine")
	return nil
}
