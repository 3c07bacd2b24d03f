package settings_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/settings"
	"vagen/internal/testkit"
)

// TestMarshalWritesReadableYAML pins the form: order of declaration, sections
// indented, maps sorted, lists on a line, quotes only where they are needed,
// floats that YAML 1.1 takes for floats, too.
func TestMarshalWritesReadableYAML(t *testing.T) {
	ratio := 0.5
	raw, err := settings.Marshal(&sample{
		Name: "run 1", Inner: inner{On: true, Rate: 1e-6, Deeper: deeper{Word: "no"}}, Ratio: &ratio,
		Layers: []string{"up", "1", "a, b"},
		Extra: map[string]any{
			"z": 1.0, "size": 4, "path": "/a/b-c.d", "deep": map[string]any{"on": true, "b": nil, "e": map[string]any{}},
			"rows": []any{map[string]any{"k": []int{1}}}, "small": float32(0.1), "kind": kind("lite"),
		},
		Hidden: 3, Loose: 4,
	})
	require.NoError(t, err)
	require.Equal(t, `name: run 1
inner:
  "on": true
  count: 0
  big: 0
  seed: 0
  rate: 1.0e-06
  deeper:
    word: "no"
ratio: 0.5
layers: [up, "1", "a, b"]
widths: []
extra:
  deep:
    b: null
    e: {}
    "on": true
  kind: lite
  path: /a/b-c.d
  rows: [{k: [1]}]
  size: 4
  small: 0.1
  z: 1.0
`, string(raw))
}

type kind string

func TestValuesWithoutAFormInYAMLAreRefused(t *testing.T) {
	for want, value := range map[string]any{
		"a func() cannot be written as YAML":                                            func() {},
		"a chan int cannot be written as YAML":                                          make(chan int),
		"a map[int]string cannot be written as YAML, because its keys are not strings":  map[int]string{1: "a"},
		"a map[bool]string cannot be written as YAML, because its keys are not strings": []any{map[bool]string{true: "a"}},
		"a complex128 cannot be written as YAML":                                        map[string]any{"x": []any{1i}},
		"a struct { A int } cannot be written as YAML":                                  []any{struct{ A int }{}},
	} {
		_, err := settings.Marshal(&sample{Extra: map[string]any{"odd": value}})
		testkit.Error(t, err, settings.ErrSetting, want)
	}
}

func TestNumbersThatAreNoneAreWrittenAsYAMLDoes(t *testing.T) {
	raw, err := settings.Marshal(&sample{Extra: map[string]any{"a": math.NaN(), "b": math.Inf(1), "c": math.Inf(-1)}})
	require.NoError(t, err)
	require.Contains(t, string(raw), "  a: .nan\n  b: .inf\n  c: -.inf\n")
}
