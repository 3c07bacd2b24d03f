package golden_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/testkit"
)

// spy is a testing.TB that records failures and logs.
type spy struct {
	testing.TB
	errors, logs []string
	cleanups     []func()
}

func (s *spy) Helper() {}
func (s *spy) Errorf(format string, args ...any) {
	s.errors = append(s.errors, fmt.Sprintf(format, args...))
}
func (s *spy) Logf(format string, args ...any) { s.logs = append(s.logs, fmt.Sprintf(format, args...)) }
func (s *spy) Cleanup(f func())                { s.cleanups = append(s.cleanups, f) }

// watch runs f as a test.
func watch(f func(t testing.TB)) *spy {
	s := &spy{}
	f(s)
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
	return s
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

// TestARunReadsItsCaseAndComparesWithIt: numbers may be in lists of lists, and settings absent or null.
func TestARunReadsItsCaseAndComparesWithIt(t *testing.T) {
	cases := testkit.JSON[[]golden.Case](t, []byte(`[{"name": "a", "params": {"x": 2, "off": null},
		"expected": {"list": [[1, 2], [], [3]], "one": 1}}]`))
	golden.EachOf(t, "f", cases, func(c *golden.Run) {
		require.Equal(t, []float64{2, 7, 8}, []float64{c.Param("x"), c.Optional("off", 7), c.Optional("absent", 8)})
		require.Equal(t, t.Name()+"/f/a", c.Name())
		golden.Numbers(c, "list", []float64{1, 2, 3})
		golden.Same(c, "list", [][]int{{1, 2}, {}, {3}})
		s := &spy{}
		c.TB = s
		golden.Numbers(c, "list", []float32{1, 2, 4})
		c.Number("one", 2)
		require.Equal(t, []string{"f: list[2]: got 4, want 3 (off by 1, allowed 0)",
			"f: one: got 2, want 1 (off by 1, allowed 0)"}, s.errors)
	})
}

// TestRecordingsOfAnotherFormNameTheirCasesAndParts in messages, and count their cases.
func TestRecordingsOfAnotherFormNameTheirCasesAndParts(t *testing.T) {
	s := watch(func(t testing.TB) {
		all := golden.Of(t, "f")
		all.Next("seed %d", 1).In("turn %d", 2).Within("reward", 3, 1, golden.Tolerance{})
		all.Next("seed %d", 2).Equal("done", true, true)
	})
	require.Equal(t, []string{"f: seed 1: turn 2: reward: got 3, want 1 (off by 2, allowed 0)"}, s.errors)
	require.Equal(t, []string{"golden: f: 2 cases, 2 comparisons"}, s.logs)
}
