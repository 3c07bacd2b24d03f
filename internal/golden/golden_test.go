package golden_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// spy is a testing.TB that records failures and logs.
type spy struct {
	testing.TB
	errors, logs []string
	fatal        string
	cleanups     []func()
}

func (s *spy) Helper() {}
func (s *spy) Errorf(format string, args ...any) {
	s.errors = append(s.errors, fmt.Sprintf(format, args...))
}
func (s *spy) Logf(format string, args ...any) { s.logs = append(s.logs, fmt.Sprintf(format, args...)) }
func (s *spy) Cleanup(f func())                { s.cleanups = append(s.cleanups, f) }
func (s *spy) Fatal(args ...any)               { s.fatal = fmt.Sprint(args...); runtime.Goexit() }
func (s *spy) Fatalf(format string, args ...any) {
	s.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// watch runs f as a test.
func watch(f func(t testing.TB)) *spy {
	s := &spy{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(s)
	}()
	<-done
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
	return s
}

// folder creates a folder of recorded numbers and sets VAGEN_GOLDEN to it.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	t.Setenv("VAGEN_GOLDEN", dir)
	return dir
}

func TestRootIsTestdataUnlessNamed(t *testing.T) {
	t.Setenv("VAGEN_GOLDEN", "")
	top, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(top, "testdata"), golden.Root(t))
	t.Setenv("VAGEN_GOLDEN", "internal")
	require.Equal(t, filepath.Join(top, "internal"), golden.Root(t), "relative to the module, not to the package")
	dir := folder(t, nil)
	require.Equal(t, dir, golden.Root(t))
	require.Equal(t, filepath.Join(dir, "a", "b.json"), golden.Path(t, "a", "b.json"))
}

func TestModelsAreThoseOfBothFolders(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{"qwen3", "qwen3_5_a"} {
		files["vlm/"+name+"/manifest.json"], files["vlm/"+name+"/checkpoint/config.json"] = "{}", "{}"
	}
	files["vlm/processor/manifest.json"], files["vlm/images/a.png"] = "{}", "" // not a model
	dir := folder(t, files)
	t.Setenv("VAGEN_GOLDEN_NEXT", dir)
	one, two := filepath.Join(dir, "vlm", "qwen3"), filepath.Join(dir, "vlm", "qwen3_5_a")
	require.Equal(t, []string{one, two}, golden.Models(t))
	require.Equal(t, filepath.Join(dir, "vlm", "images", "a.png"), golden.OfModel(t, one, "images/a.png"))

	first := folder(t, map[string]string{"vlm/images/b.png": ""})
	require.Equal(t, []string{two}, golden.Models(t))
	require.Equal(t, filepath.Join(first, "vlm", "images", "b.png"), golden.OfModel(t, two, "images/b.png"))
	t.Setenv("VAGEN_GOLDEN_NEXT", first)
	require.Contains(t, watch(func(t testing.TB) { golden.Models(t) }).fatal, "no recorded model")
}

func TestAMissingFolderFailsTheTest(t *testing.T) {
	for _, dir := range []string{"/nowhere/at/all", "go.mod"} {
		t.Setenv("VAGEN_GOLDEN", dir)
		s := watch(func(t testing.TB) { golden.Root(t) })
		require.Contains(t, s.fatal, "is not a folder of recorded numbers")
		require.Contains(t, s.fatal, dir)
	}
}

func TestAFolderOutsideAModuleFailsTheTest(t *testing.T) {
	t.Chdir(t.TempDir())
	require.Contains(t, watch(func(t testing.TB) { golden.Root(t) }).fatal, "no go.mod above")
}

func TestCasesAreRead(t *testing.T) {
	folder(t, map[string]string{"sub/file.json": `{"schema": "vagen-golden/1", "cases": [
		{"name": "one", "tags": ["a", "b"], "dtype": "float32", "params": {"gamma": 0.5}, "inputs": {"x": [1, 2]}, "expected": {"y": 3}, "tolerance": {"abs": 1e-6, "rel": 0.01}}]}`})
	cases := golden.Cases(t, "sub/file.json")
	require.Len(t, cases, 1)
	c := cases[0]
	require.Equal(t, "one", c.Name)
	require.Equal(t, "float32", c.DType)
	require.True(t, c.HasTag("b"))
	require.False(t, c.HasTag("c"))
	require.Equal(t, golden.Tolerance{Abs: 1e-6, Rel: 0.01}, c.Tolerance)
	var x []float64
	golden.Need(t, c.Inputs, "x", &x)
	require.Equal(t, []float64{1, 2}, x)
	require.False(t, golden.Decode(t, c.Inputs, "absent", &x))
	var y float64
	require.True(t, golden.Decode(t, c.Expected, "y", &y))
	require.Equal(t, 3.0, y)
}

func TestFilesThatCannotBeReadFailTheTest(t *testing.T) {
	folder(t, map[string]string{"broken.json": "{", "empty.json": `{"schema": "vagen-golden/1", "cases": []}`})
	for name, want := range map[string]string{"absent.json": "no such file", "broken.json": "broken.json: unexpected end",
		"empty.json": `empty.json: no cases (schema "vagen-golden/1")`} {
		require.Contains(t, watch(func(t testing.TB) { golden.Cases(t, name) }).fatal, want)
	}
	fields := map[string]json.RawMessage{"x": json.RawMessage(`"text"`)}
	var x float64
	require.Contains(t, watch(func(t testing.TB) { golden.Need(t, fields, "x", &x) }).fatal,
		`field "x": json: cannot unmarshal string`)
	require.Contains(t, watch(func(t testing.TB) { golden.Need(t, fields, "y", &x) }).fatal, `field "y" is missing`)
}

func TestToleranceIsAbsoluteAndRelativeTogether(t *testing.T) {
	tol := golden.Tolerance{Abs: 0.5, Rel: 0.25}
	for _, c := range []struct {
		got, want float64
		ok        bool
	}{
		{4, 4, true}, {5.5, 4, true}, {2.5, 4, true}, {5.625, 4, false}, {2.375, 4, false}, {-5.5, -4, true}, {0.5, 0, true},
		{0.75, 0, false},
		{math.NaN(), 0, false}, {0, math.NaN(), false}, {math.NaN(), math.NaN(), false}, {math.Inf(1), 4, false},
	} {
		require.Equal(t, c.ok, tol.Within(c.got, c.want), "%v", c)
	}
	require.True(t, golden.Tolerance{}.Within(1, 1), "without a tolerance the numbers must be equal")
	require.False(t, golden.Tolerance{}.Within(1, math.Nextafter(1, 2)))
}

func TestTallyCountsAndLogs(t *testing.T) {
	s := watch(func(t testing.TB) {
		c := golden.NewTally(t, "sub/file.json")
		for range 3 {
			c.Case()
		}
		c.Float(t, "a", 1, 1, golden.Tolerance{})
		golden.Floats(t, c, "b", []float32{1, 2}, []float64{1, 2}, golden.Tolerance{})
		golden.Equal(t, c, "c", "x", "x")
		c.Add(4)
		if c.String() != "golden sub/file.json" {
			t.Errorf("%s", c)
		}
	})
	require.Empty(t, s.errors)
	require.Equal(t, []string{"golden: sub/file.json: 3 cases, 7 comparisons"}, s.logs)
}

func TestATallyWithoutComparisonsFailsTheTest(t *testing.T) {
	s := watch(func(t testing.TB) { golden.NewTally(t, "f").Case() })
	require.Equal(t, []string{"golden: f: nothing was compared"}, s.errors)
	require.Equal(t, []string{"golden: f: 1 cases, 0 comparisons"}, s.logs)
}

// TestDifferencesFailTheTest: every kind of comparison reports name, got and want.
func TestDifferencesFailTheTest(t *testing.T) {
	tol := golden.Tolerance{Abs: 0.5}
	for want, compare := range map[string]func(t testing.TB, c *golden.Tally){
		"f: x: got 3, want 1 (off by 2, allowed 0.5)": func(t testing.TB, c *golden.Tally) { c.Float(t, "x", 3, 1, tol) },
		"f: x: got NaN, want 1 (off by NaN, allowed 0.5)": func(t testing.TB, c *golden.Tally) {
			c.Float(t, "x", math.NaN(), 1, tol)
		},
		"f: x: 1 numbers, want 2": func(t testing.TB, c *golden.Tally) {
			golden.Floats(t, c, "x", []float64{1}, []float64{1, 2}, tol)
		},
		"f: x[1]: got 5, want 2 (off by 3, allowed 0.5)": func(t testing.TB, c *golden.Tally) {
			golden.Floats(t, c, "x", []float64{2, 5, 4}, []float64{1, 2, 3}, tol)
		},
		"f: x[1]: got NaN, want 2 (off by NaN, allowed 0.5)": func(t testing.TB, c *golden.Tally) {
			golden.Floats(t, c, "x", []float64{9, math.NaN(), 3}, []float64{1, 2, 3}, tol)
		},
		"f: x: got 1, want 2": func(t testing.TB, c *golden.Tally) { golden.Equal(t, c, "x", 1, 2) },
	} {
		s := watch(func(t testing.TB) { compare(t, golden.NewTally(t, "f")) })
		require.Equal(t, []string{want}, s.errors)
		require.True(t, strings.HasSuffix(s.logs[0], "1 comparisons"))
	}
}
