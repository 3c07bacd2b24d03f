// Package devicetest opens devices for tests of graphs: GoMLX's pure-Go backend,
// and XLA on the CPU if its plugin is installed. With VAGEN_TEST_BACKEND=cuda XLA
// runs on an NVIDIA GPU instead, and tests fail if it is missing.
//
// Set VAGEN_REQUIRE_XLA=1 where the plugin is required, such as in continuous
// integration: it is then installed, and tests fail if that is not possible. By
// default nothing is installed, and tests without a plugin use pure Go only.
package devicetest

import (
	"os"
	"testing"

	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/fused"
	"vagen/policy/vlm/internal/plugin"
)

// Environment variables.
const (
	requireXLA  = "VAGEN_REQUIRE_XLA"  // 1 turns a missing plugin into a failure
	testBackend = "VAGEN_TEST_BACKEND" // cuda has XLA use a GPU
)

func init() {
	if _, set := os.LookupEnv(plugin.NoInstall); !set && !Required() {
		_ = os.Setenv(plugin.NoInstall, "1")
	}
}

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
func Required() bool { return os.Getenv(requireXLA) == "1" || onGPU() }

func onGPU() bool { return os.Getenv(testBackend) == backend.CUDA }

// Backend is the backend for tests of numbers: XLA if its plugin is installed, else pure Go. Other tests use
// backend.Go, which compiles nothing.
func Backend() string {
	switch {
	case onGPU():
		return backend.CUDA
	case Required():
		return backend.XLA
	}
	return backend.Auto
}

// Best opens a device on Backend. It is closed when the test ends.
func Best(t testing.TB) *device.Device {
	t.Helper()
	return open(t, Backend())
}

// Go opens a device on the pure-Go backend.
func Go(t testing.TB) *device.Device {
	t.Helper()
	return open(t, backend.Go)
}

func open(t testing.TB, choice string) *device.Device {
	t.Helper()
	d, err := backend.OpenDevice(t.Context(), choice, nil)
	if err != nil {
		t.Fatalf("devicetest: %v", err)
	}
	t.Cleanup(d.Close)
	return d
}

// Each runs the test on every backend of this machine: pure Go, and XLA if it is
// installed.
func Each(t *testing.T, f func(t *testing.T, d *device.Device)) {
	t.Helper()
	t.Run("go", func(t *testing.T) { f(t, Go(t)) })
	if d := Best(t); !d.PureGo() {
		t.Run("xla", func(t *testing.T) { f(t, d) })
	}
}

// Kernels opens a device whose programs may call kernels. Without kernels the test is
// skipped, or fails if XLA is required and the processor supports them.
func Kernels(t testing.TB) *device.Device {
	t.Helper()
	d := Best(t)
	switch {
	case !d.PureGo() && !d.Accelerator() && fused.Registered():
		return d
	case Required() && !onGPU() && fused.Able():
		t.Fatal("devicetest: the plugin did not accept the kernels")
	}
	t.Skip("no kernels on this machine")
	return nil
}
