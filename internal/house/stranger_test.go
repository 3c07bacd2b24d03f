package house_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// strangers are examples to build and run in a module outside the tree, with a pattern of what they print.
var strangers = []struct {
	name, want string
	args       []string
}{
	{"embed", ".", nil},
	{"estimators", ".", nil},
	{"ownenv", ".", nil},
	{"ownlearner", `before 0\.2\d, trained 0\.3\d`, []string{"-steps", "12"}}, // at random 0.26, at best 0.43
	{"quickstart", ".", []string{"-recipe", "tiny", "-backend", "go"}},        // other recipes train for minutes
}

// TestAStrangersModuleRunsTheExamples runs the examples as programs of a module outside the tree. So all
// that they import is public. The quickstart gets the recipe of its tests, as a stranger would add one,
// and trains and writes its report. A longer run of the own learner continues in the folder of the first one.
func TestAStrangersModuleRunsTheExamples(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, s := range strangers {
		require.Regexp(t, s.want, command(t, dir, programs(t), append([]string{s.name}, s.args...)...), s.name)
	}
	for _, name := range []string{"metrics.jsonl", "report.html", "checkpoints/step_2/actor/model.safetensors"} {
		require.FileExists(t, filepath.Join(dir, "runs/tiny-seed0", name))
	}
	command(t, dir, programs(t), "ownlearner", "-steps", "14")
	require.DirExists(t, filepath.Join(dir, "runs/ownlearner/checkpoints/step_14"))
}

// built are the executables that tests share, each linked once.
var built struct {
	vagen, programs sync.Once
	dir             string // in PATH, removed at the end
}

// smaller leaves out what debuggers need, which takes half of linking.
const smaller = "-ldflags=-s -w"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "house")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	built.dir = dir
	os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	os.Setenv("ANTHROPIC_API_KEY", "none")
	os.Setenv("VAGEN_COMPILE_CACHE", filepath.Join(dir, "compiled"))
	return m.Run()
}

// vagen returns the path of the command.
func vagen(t *testing.T) string {
	path := filepath.Join(built.dir, "vagen")
	built.vagen.Do(func() { command(t, root, "go", "build", smaller, "-o", path, "./cmd/vagen") })
	require.FileExists(t, path)
	return path
}

// programs returns the path of an executable whose first argument is the name of an example or the
// program of a block. It is built in a module outside the tree, which requires vagen as the README describes.
// One executable is linked, not one for each program: a package main becomes one with a function Main.
func programs(t *testing.T) string {
	path := filepath.Join(built.dir, "programs")
	built.programs.Do(func() {
		m := stranger(t)
		for _, s := range strangers {
			m.example(t, s.name)
		}
		recipe, err := os.ReadFile(filepath.Join(root, "examples/quickstart/tiny_test.go"))
		require.NoError(t, err)
		m.add(t, "quickstart", "tiny.go", recipe)
		for _, d := range documents(t) {
			for i, b := range d.blocks {
				if b.lang == "go" {
					m.add(t, program(d, i), "main.go", []byte(short(b.text)))
				}
			}
		}
		m.build(t, path)
	})
	require.FileExists(t, path)
	return path
}

// module is a Go module outside the tree. It has a package for each program.
type module struct {
	dir      string
	packages map[string]bool
}

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
	m := module{t.TempDir(), map[string]bool{}}
	require.NoError(t, os.WriteFile(filepath.Join(m.dir, "go.mod"), []byte(mod), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(m.dir, "go.sum"), sums, 0o644))
	return m
}

// example adds the program in a folder of examples, without its tests.
func (m module) example(t *testing.T, name string) {
	sources, err := filepath.Glob(filepath.Join(root, "examples", name, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, sources, name)
	for _, path := range sources {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		m.add(t, name, filepath.Base(path), raw)
	}
}

var (
	packageMain = regexp.MustCompile(`(?m)^package main\b`)
	funcMain    = regexp.MustCompile(`(?m)^func main\(\)`)
)

// add writes a file of the program in folder dir.
func (m module) add(t *testing.T, dir, name string, text []byte) {
	m.packages[dir] = true
	dir = filepath.Join(m.dir, dir)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.Regexp(t, packageMain, string(text), name)
	text = packageMain.ReplaceAll(text, []byte("package program"))
	text = funcMain.ReplaceAll(text, []byte("func Main()"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
}

// build checks the packages and writes an executable with the programs to path.
func (m module) build(t *testing.T, path string) {
	imports, cases := "\t\"os\"\n", ""
	for i, name := range slices.Sorted(maps.Keys(m.packages)) {
		imports += fmt.Sprintf("\tp%d %q\n", i, "stranger/"+name)
		cases += fmt.Sprintf("\tcase %q:\n\t\tp%d.Main()\n", name, i)
	}
	main := "package main\n\nimport (\n" + imports +
		")\n\nfunc main() {\n\tos.Args = os.Args[1:]\n\tswitch os.Args[0] {\n" +
		cases + "\tdefault:\n\t\tpanic(os.Args[0])\n\t}\n}\n"
	require.NoError(t, os.WriteFile(filepath.Join(m.dir, "main.go"), []byte(main), 0o644))
	command(t, m.dir, "go", "vet", "./...")
	command(t, m.dir, "go", "build", smaller, "-o", path, ".")
}

// command runs a program, which must succeed, and returns what it prints.
func command(t *testing.T, dir, name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GOFLAGS="+
		strings.TrimSpace(os.Getenv("GOFLAGS")+" -mod=mod"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %v\n%s", name, args, out)
	return string(out)
}
