package safeyaml

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

func TestValuesAreThoseOfYAML(t *testing.T) {
	for text, want := range map[string]any{
		"": nil, "3": uint64(3), "# nothing": nil, "[a, {b: 1.5}]": []any{"a", map[string]any{"b": 1.5}},
		"a: &x [1]\nb: *x": map[string]any{"a": []any{uint64(1)}, "b": []any{uint64(1)}},
	} {
		got, err := Value([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	_, err := Value([]byte("[1"))
	require.Error(t, err)
}

// laughs returns a text whose nested aliases give 10 to the power of levels values.
func laughs(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n")
	for i := range levels - 1 {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
	}
	return b.String()
}

func TestSmallTextsCannotExpandWithoutLimit(t *testing.T) {
	const n = 40 << 10
	for name, text := range map[string]string{
		"brackets": strings.Repeat("[", 2*n), "braces": strings.Repeat("{", 2*n), "pairs": strings.Repeat("{a: ", n),
		"dashes": strings.Repeat("- ", n), "keys": strings.Repeat("? ", n), "colons": strings.Repeat("a: ", n),
		"aliases": laughs(9), "mapping": strings.NewReplacer("[", "{k: [", "]", "]}").Replace(laughs(9)),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Value([]byte(text))
		runtime.ReadMemStats(&after)
		require.Error(t, err, name)
		if name != "colons" { // not YAML
			require.ErrorIs(t, err, ErrLimit, name)
		}
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), name)
	}
	_, err := Value([]byte(laughs(4)))
	require.NoError(t, err)
	_, err = Value([]byte("a: &x [1, *x]"))
	require.ErrorContains(t, err, "refers to a value that contains it")
}

// TestWhatParsersReadDifferentlyIsRefused: several documents, numbers with leading zeros, and
// bytes that are not UTF-8; the message has the line.
func TestWhatParsersReadDifferentlyIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\n---\nb: 2":           "line 2: a second document begins",
		"a: 1\r\n---\r\nb: 2":       "line 2: a second document begins",
		"---\n---\na: 1":            "line 2: a second document begins",
		"a: 1\n--- # empty\n":       "line 2: a second document begins",
		"a: 1\n...\n# no\nb: 2":     "line 4: a second document begins",
		"a: 1\nb: 010":              "line 2: 010 is a number of base 8 in YAML 1.1",
		"[1, -007]":                 "line 1: -007 is a number",
		"00":                        "line 1: 00 is a number",
		"0_1":                       "line 1: 0_1 is a number",
		"010: x":                    "line 1: 010 is a number",
		"a: !!str 010":              "line 1: 010 is a number",
		"a: 1\nb: x\xff":            "line 2: byte 5 is 0xff, which is not UTF-8",
		"a: caf\xe9 au lait":        "line 1: byte 7 is 0xe9, which is not UTF-8",
		"a: \xed\xa0\x80":           "line 1: byte 4 is 0xed, which is not UTF-8",
		"\xff\xfea\x00:\x00":        "line 1: byte 1 is 0xff, which is not UTF-8",
		"\xef\xbb\xbfa: 1\nb: \x80": "line 2: byte 4 is 0x80, which is not UTF-8",
	} {
		_, err := Value([]byte(text))
		require.ErrorContains(t, err, want, "%q", text)
		_, err = Parse([]byte(text))
		require.ErrorContains(t, err, want, "%q", text)
	}
	for text, want := range map[string]any{
		"%YAML 1.2\n# c\n---\na: 1\n...\n# d\n": map[string]any{"a": uint64(1)},
		"\xef\xbb\xbfa: 1":                      map[string]any{"a": uint64(1)},
		"a: |\n  ---\n  x\n":                    map[string]any{"a": "---\nx\n"},
		"---- a":                                "---- a", "'010'": "010", "010.5": 10.5, "0": uint64(0), "0o10": uint64(8),
		"0x0a":      uint64(10),
		"a: \uFFFD": map[string]any{"a": "\uFFFD"},
	} {
		got, err := Value([]byte(text))
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, got, "%q", text)
	}
}

// TestVariablesAreTextsOrNumbers: what a variable holds changes no other value, and is a text if it is not one
// number or the like, or in quotes.
func TestVariablesAreTextsOrNumbers(t *testing.T) {
	t.Setenv("VAGEN_TEST", "a: b # c")
	t.Setenv("VAGEN_NUMBER", "8")
	expand := func(text string) (v any, errs []error) {
		file, err := Parse([]byte(text))
		require.NoError(t, err, text)
		body, errs := Expand(file.Docs[0].Body, true)
		require.NoError(t, yaml.NodeToValue(body, &v))
		return v, errs
	}
	for text, want := range map[string]any{
		"${oc.env:VAGEN_TEST}":            "a: b # c",
		"'x ${oc.env:VAGEN_TEST}'":        "x a: b # c",
		"'${oc.env: VAGEN_NUMBER }'":      "8",
		"${oc.env:VAGEN_NUMBER}":          uint64(8),
		"1${oc.env:VAGEN_NUMBER}":         uint64(18),
		`"${oc.env:VAGEN_NUMBER}"`:        "8",
		"|\n  ${oc.env:VAGEN_NUMBER}":     "8",
		"${oc.env:NOT_SET, true}":         true,
		"${oc.env:NOT_SET, a, b }":        "a, b",
		"${oc.env:NOT_SET,}":              nil,
		"${oc.env:NOT_SET,'[1]'}":         "'[1]'",
		"${oc.env:NOT_SET,007}":           "007",
		"[x] # ${oc.env:NOT_SET}":         []any{"x"},
		"${other} ${oc.env:VAGEN_NUMBER}": "${other} 8",
	} {
		v, errs := expand("a: " + text)
		require.Empty(t, errs, text)
		require.Equal(t, map[string]any{"a": want}, v, text)
	}
	_, errs := expand("a: ${oc.env:NOT_SET}\nb:\n- ${oc.env:NOR_THIS}")
	require.EqualError(t, errors.Join(errs...), `line 1: the environment variable NOT_SET is not set, and ${oc.env:NOT_SET} has no default
line 3: the environment variable NOR_THIS is not set, and ${oc.env:NOR_THIS} has no default`)
}

// TestAliasesAndMergeKeysAreExpanded as in YAML 1.1: own keys come first, then those of
// earlier mappings.
func TestAliasesAndMergeKeysAreExpanded(t *testing.T) {
	expand := func(text string) (v any, err error) {
		file, err := Parse([]byte(text))
		require.NoError(t, err)
		body, errs := Expand(file.Docs[0].Body, false)
		err = errors.Join(errs...)
		if err == nil {
			err = yaml.NodeToValue(body, &v)
		}
		return v, err
	}
	for text, want := range map[string]string{
		"a: &x [1, 2]\nb: *x\nc: [*x]":                                  "map[a:[1 2] b:[1 2] c:[[1 2]]]",
		"a: &x {p: 1, q: {r: 1}}\nb: {<<: *x, q: {s: 2}}":               "map[a:map[p:1 q:map[r:1]] b:map[p:1 q:map[s:2]]]",
		"a: &x {p: 1}\nb: &y {p: 2, q: 3}\nc:\n  <<: [*x, *y]\n  z: *x": "map[a:map[p:1] b:map[p:2 q:3] c:map[p:1 q:3 z:map[p:1]]]",
		"a: &x {p: 1}\nb: &y {<<: *x, q: 2}\nc: {<<: *y}":               "map[a:map[p:1] b:map[p:1 q:2] c:map[p:1 q:2]]",
	} {
		v, err := expand(text)
		require.NoError(t, err, text)
		require.Equal(t, want, fmt.Sprint(v), text)
	}
	_, err := expand("a: 1\nb: *x")
	require.ErrorContains(t, err, "line 2: *x has no anchor before it")
	_, err = expand("a: &x 1\nb: {<<: *x}")
	require.ErrorContains(t, err, "line 2: << must have a mapping")
}
