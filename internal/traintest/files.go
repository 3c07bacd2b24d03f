package traintest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// WriteFile writes a configuration file to a temporary folder of the test.
func WriteFile(t testing.TB, yaml string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.yaml")
	require.NoError(t, os.WriteFile(path, []byte(yaml), 0o644))
	return path
}

var machineMetric = regexp.MustCompile(`"(?:time|timing_s|timing_per_token_ms|perf)/[^"]*":[^,}]*,?`)

// Files returns the files of a run's folder, except those with the given names and in folders with these, by their
// paths in it. Metrics that depend on the machine are cut out.
func Files(t testing.TB, dir string, without ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != dir && slices.Contains(without, d.Name()) {
			return fs.SkipDir
		}
		if err != nil || !d.Type().IsRegular() || slices.Contains(without, d.Name()) {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = string(machineMetric.ReplaceAll(raw, nil))
		return err
	}))
	return out
}
