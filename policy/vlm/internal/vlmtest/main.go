package vlmtest

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/devicetest"
)

// Main runs the tests of a package on XLA where its plugin is installed, else on pure Go. What models of several
// tests, and processes of one test, have in common is compiled once: executables are kept in a folder, unless one is
// set.
func Main(m *testing.M) { os.Exit(withExecutables(m.Run)) }

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

// OnCPU skips a test unless the test backend is XLA on a processor.
func OnCPU(t testing.TB) {
	t.Helper()
	if d := devicetest.Best(t); d.PureGo() || d.Accelerator() {
		t.Skipf("the backend is %s", d.Name())
	}
}
