package house_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// strangers are examples to build and run in a module outside the tree.
var strangers = []struct {
	name string
	args []string
}{
	{"embed", nil},
	{"estimators", nil},
	{"ownenv", nil},
	{"ownlearner", nil},
	{"quickstart", []string{"-recipe", "tiny", "-backend", "go"}}, // other recipes train for minutes
}

// TestAStrangersModuleRunsTheExamples copies the examples to a module outside the tree,
// which requires vagen as the README describes. So all that they import is public. The quickstart
// gets the recipe of its tests, as a stranger would add one, and trains and writes its report.
func TestAStrangersModuleRunsTheExamples(t *testing.T) {
	m := stranger(t)
	for _, s := range strangers {
		sources, err := filepath.Glob(filepath.Join(root, "examples", s.name, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, sources, s.name)
		for _, path := range sources {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			m.add(t, s.name, filepath.Base(path), raw)
		}
	}
	recipe, err := os.ReadFile(filepath.Join(root, "examples/quickstart/tiny_test.go"))
	require.NoError(t, err)
	m.add(t, "quickstart", "tiny.go", recipe)
	m.build(t)
	dir := t.TempDir()
	for _, s := range strangers {
		require.NotEmpty(t, command(t, dir, filepath.Join(m.bin, s.name), s.args...), s.name)
	}
	for _, name := range []string{"metrics.jsonl", "report.html", "checkpoints/step_2/actor/model.safetensors"} {
		require.FileExists(t, filepath.Join(dir, "runs/tiny-seed0", name))
	}
}

// module is a Go module outside the tree.
type module struct{ dir, bin string }

// stranger creates a module that requires vagen with the lines in the README. Other modules
// have the versions that vagen uses, so no network is needed.
func stranger(t *testing.T) module {
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	var lines string
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.lang == "go.mod" {
				lines += b.text
			}
		}
	}
	require.Contains(t, lines, "replace vagen => ../vagen\n")
	raw, err := os.ReadFile(filepath.Join(here, "go.mod"))
	require.NoError(t, err)
	mod := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(string(raw), "module stranger")
	mod += "\n" + strings.ReplaceAll(lines, "../vagen", here)
	sums, err := os.ReadFile(filepath.Join(here, "go.sum"))
	require.NoError(t, err)
	m := module{t.TempDir(), filepath.Join(t.TempDir(), "bin")}
	m.add(t, "", "go.mod", []byte(mod))
	m.add(t, "", "go.sum", sums)
	return m
}

// add writes a file of the package in folder dir.
func (m module) add(t *testing.T, dir, name string, text []byte) {
	dir = filepath.Join(m.dir, dir)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
}

// build checks the packages and writes the programs to m.bin.
func (m module) build(t *testing.T) {
	command(t, m.dir, "go", "vet", "./...")
	command(t, m.dir, "go", "build", "-o", m.bin+string(filepath.Separator), "./...")
}

// command runs a program, which must succeed, and returns what it prints.
func command(t *testing.T, dir, name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -mod=mod"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %v\n%s", name, args, out)
	return string(out)
}
