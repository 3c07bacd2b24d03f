// Package golden reads recorded numbers for tests and counts what was compared.
//
// The numbers are in the folder given by the environment variable VAGEN_GOLDEN, otherwise in
// testdata at the root of the module. A relative
// VAGEN_GOLDEN is relative to the module's root, so that one setting serves the tests of
// every package. VAGEN_GOLDEN_NEXT names a second folder of the same layout, which has the models of Qwen3.5.
package golden

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
)

// Root returns the folder with the recorded numbers. It fails the test if the folder does
// not exist.
func Root(t testing.TB) string {
	t.Helper()
	return root(t, "VAGEN_GOLDEN")
}

// root is the folder that an environment variable names, otherwise testdata.
func root(t testing.TB, variable string) string {
	t.Helper()
	top := moduleRoot(t)
	dir := os.Getenv(variable)
	switch {
	case dir == "":
		dir = filepath.Join(top, "testdata")
	case !filepath.IsAbs(dir):
		dir = filepath.Join(top, dir)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Fatalf("golden: %q is not a folder of recorded numbers (%s=%q)", dir, variable, os.Getenv(variable))
	}
	return dir
}

// Models returns the folders of recorded models that have a checkpoint: those below Root, and those below the second
// folder, which without the variable are those of Qwen3.5 in testdata. It fails the test if there are none.
func Models(t testing.TB) []string {
	t.Helper()
	var dirs []string
	names := map[string]string{"VAGEN_GOLDEN": "*", "VAGEN_GOLDEN_NEXT": "*"}
	if os.Getenv("VAGEN_GOLDEN_NEXT") == "" {
		names["VAGEN_GOLDEN_NEXT"] = "qwen3_5*"
	}
	for variable, name := range names {
		found, err := filepath.Glob(filepath.Join(root(t, variable), "vlm", name, "checkpoint"))
		if err != nil {
			t.Fatalf("golden: %v", err)
		}
		for _, path := range found {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	if len(dirs) == 0 {
		t.Fatalf("golden: no recorded model in %s", Root(t))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// OfModel returns the path of a file that recorded models of the folder share, such as an image: beside the
// model, otherwise below Root.
func OfModel(t testing.TB, model, name string) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(model), filepath.FromSlash(name))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return Path(t, "vlm", filepath.FromSlash(name))
}

func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("golden: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("golden: no go.mod above the working directory")
		}
		dir = up
	}
}

// Tolerance is the allowed difference from a recorded number:
// abs(got − want) ≤ Abs + Rel·abs(want).
type Tolerance struct {
	Abs float64 `json:"abs"`
	Rel float64 `json:"rel"`
}

// Within reports whether got is close enough to want. NaN is never close.
func (tol Tolerance) Within(got, want float64) bool {
	return math.Abs(got-want) <= tol.Abs+tol.Rel*math.Abs(want)
}

// Case is one recorded case of a file with schema vagen-golden/1.
type Case struct {
	Name      string                     `json:"name"`
	Tags      []string                   `json:"tags"`
	DType     string                     `json:"dtype"`
	Params    map[string]json.RawMessage `json:"params"`
	Inputs    map[string]json.RawMessage `json:"inputs"`
	Expected  map[string]json.RawMessage `json:"expected"`
	Tolerance Tolerance                  `json:"tolerance"`
}

// HasTag reports whether the case has the tag.
func (c Case) HasTag(tag string) bool { return slices.Contains(c.Tags, tag) }

// Decode unmarshals one field into dst and reports whether the field exists. A field that
// does not fit dst fails the test.
func Decode(t testing.TB, fields map[string]json.RawMessage, name string, dst any) bool {
	t.Helper()
	raw, ok := fields[name]
	if !ok {
		return false
	}
	if err := json.Unmarshal(raw, dst); err != nil {
		t.Fatalf("golden: field %q: %v", name, err)
	}
	return true
}

// Need is Decode for a field that must exist.
func Need(t testing.TB, fields map[string]json.RawMessage, name string, dst any) {
	t.Helper()
	if !Decode(t, fields, name, dst) {
		t.Fatalf("golden: field %q is missing", name)
	}
}

// Value returns a field that must exist.
func Value[T any](t testing.TB, fields map[string]json.RawMessage, name string) (v T) {
	t.Helper()
	Need(t, fields, name, &v)
	return v
}

// Read unmarshals one JSON file, named relative to Root, into dst.
func Read(t testing.TB, name string, dst any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(Root(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatalf("golden: %v", err)
	}
	if err := json.Unmarshal(raw, dst); err != nil {
		t.Fatalf("golden: %s: %v", name, err)
	}
}

// Table reads a table of a test: a YAML file in the folder testdata of the test's package.
func Table[T any](t testing.TB, name string) (table T) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = yaml.UnmarshalWithOptions(raw, &table, yaml.Strict())
	}
	if err != nil {
		t.Fatalf("golden: %s: %v", name, err)
	}
	return table
}

// Cases reads a file of schema vagen-golden/1, for instance
// "algorithms/masked_gae.json". A file without cases fails the test.
func Cases(t testing.TB, name string) []Case {
	t.Helper()
	var file struct {
		Schema string `json:"schema"`
		Cases  []Case `json:"cases"`
	}
	Read(t, name, &file)
	if len(file.Cases) == 0 {
		t.Fatalf("golden: %s: no cases (schema %q)", name, file.Schema)
	}
	return file.Cases
}

// Tally counts cases and comparisons of one file and, at the end of the test,
// logs "golden: <file>: N cases, M comparisons". A test without comparisons fails.
type Tally struct {
	t           testing.TB
	mu          sync.Mutex
	name        string
	cases       int
	comparisons int
}

// NewTally starts a count for the file and logs it when the test ends.
func NewTally(t testing.TB, name string) *Tally {
	t.Helper()
	tally := &Tally{t: t, name: name}
	t.Cleanup(func() {
		tally.mu.Lock()
		defer tally.mu.Unlock()
		if tally.comparisons == 0 {
			t.Errorf("golden: %s: nothing was compared", name)
		}
		t.Logf("golden: %s: %d cases, %d comparisons", name, tally.cases, tally.comparisons)
	})
	return tally
}

// Case counts one case.
func (c *Tally) Case() {
	c.mu.Lock()
	c.cases++
	c.mu.Unlock()
}

// Add counts n comparisons made by the caller.
func (c *Tally) Add(n int) {
	c.mu.Lock()
	c.comparisons += n
	c.mu.Unlock()
}

// Float compares one number.
func (c *Tally) Float(t testing.TB, what string, got, want float64, tol Tolerance) {
	t.Helper()
	c.Add(1)
	if !tol.Within(got, want) {
		t.Errorf("%s: %s: got %v, want %v (off by %g, allowed %g)", c.name, what, got, want,
			math.Abs(got-want), tol.Abs+tol.Rel*math.Abs(want))
	}
}

// Floats compares two vectors element by element as one comparison and reports
// the worst element.
func Floats[T float32 | float64](t testing.TB, c *Tally, what string, got []T, want []float64, tol Tolerance) {
	t.Helper()
	c.Add(1)
	if len(got) != len(want) {
		t.Errorf("%s: %s: %d numbers, want %d", c.name, what, len(got), len(want))
		return
	}
	worst, at := 0.0, -1
	for i, w := range want {
		g := float64(got[i])
		if tol.Within(g, w) {
			continue
		}
		if d := math.Abs(g - w); at < 0 || !(d <= worst) {
			worst, at = d, i
		}
	}
	if at >= 0 {
		t.Errorf("%s: %s[%d]: got %v, want %v (off by %g, allowed %g)", c.name, what, at, got[at], want[at],
			worst, tol.Abs+tol.Rel*math.Abs(want[at]))
	}
}

// Equal compares two values that must be the same.
func Equal[T comparable](t testing.TB, c *Tally, what string, got, want T) {
	t.Helper()
	c.Add(1)
	if got != want {
		t.Errorf("%s: %s: got %v, want %v", c.name, what, got, want)
	}
}

// Path joins the parts of a file's name below Root.
func Path(t testing.TB, parts ...string) string {
	t.Helper()
	return filepath.Join(append([]string{Root(t)}, parts...)...)
}

// String returns the tally's name for messages.
func (c *Tally) String() string { return fmt.Sprintf("golden %s", c.name) }
