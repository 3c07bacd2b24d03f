package jsonschema

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/jsontext"
)

// TestPartsAreCheckedAndDescribed: references, alternatives, types, bounds, elements and fields.
func TestPartsAreCheckedAndDescribed(t *testing.T) {
	root, err := jsontext.Tree[map[string]any](`{"$defs": {"Place": {"type": "object", "required": ["x"],
		"properties": {"x": {"type": "integer", "minimum": 0}}, "additionalProperties": false}},
		"properties": {"at": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]},
		"way": {"enum": ["up", 2]}, "all": {"type": "array", "items": {"type": ["boolean", "string"]}},
		"same": {"const": true}, "any": true}, "definitions": {"Old": {"type": "null"}}}`, jsontext.Exact)
	require.NoError(t, err)
	s := Schema(root)
	require.Equal(t, []string{"all", "any", "at", "same", "way"}, s.Fields())
	for _, c := range []struct {
		field, value, wrong string
		named               bool // its type
	}{
		{"at", `{"x": 1.0}`, "", true},
		{"at", `null`, "", true},
		{"at", `{"x": 0.5}`, `it must be object or null, found {"x":0.5}`, true},
		{"at", `7`, `it must be object or null, found 7`, false},
		{"way", `2`, "", false},
		{"way", `"left"`, `it must be one of up, 2, found left`, false},
		{"all", `[true, "a"]`, "", true},
		{"all", `[1]`, `element 0: it must be boolean or string, found 1`, true},
		{"same", `false`, `it must be true, found false`, false},
		{"any", `[{}]`, "", false},
		{"none", `1`, "", false},
	} {
		v, err := jsontext.Tree[any](c.value, jsontext.Exact)
		require.NoError(t, err)
		part := s.Field(c.field)
		require.Equal(t, c.named, (&check{root: s}).names(part, v), c)
		if err = s.Check(part, v); c.wrong != "" {
			require.EqualError(t, err, c.wrong)
			continue
		}
		require.NoError(t, err, c)
	}
	require.EqualError(t, s.Check(Schema{"$ref": "#/definitions/Old"}, 1.0), "it must be null, found 1")
	require.Equal(t, "any value (may be left out)", s.DescribeField("any"))
	place := jsontext.Object(root["$defs"])["Place"]
	require.EqualError(t, s.Check(jsontext.Object(place), map[string]any{"x": 1.0, "y": 1.0}),
		`field "y": it is unknown, there are x`)
	require.EqualError(t, s.Check(jsontext.Object(place), map[string]any{}),
		`field "x": it is missing, must be integer at least 0`)
}

// TestTextsAreReadByTheSchema: as JSON of a type that it names, or where it does not allow the text.
func TestTextsAreReadByTheSchema(t *testing.T) {
	root, err := jsontext.Tree[map[string]any](`{"properties": {"text": {"type": "string"}, "n": {"type": "integer"},
		"maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "way": {"enum": ["up", 2]},
		"any": true}}`, jsontext.Exact)
	require.NoError(t, err)
	for _, c := range []struct {
		field, text string
		want        any
	}{
		{"text", "7", "7"}, {"text", `"a"`, `"a"`}, {"n", "7", 7.0}, {"n", "two", "two"}, {"n", "2.5", 2.5},
		{"maybe", "null", nil}, {"maybe", "7", "7"}, {"way", "up", "up"}, {"way", `"up"`, "up"}, {"way", "2", 2.0},
		{"any", "7", "7"}, {"none", "[]", "[]"},
	} {
		v, _ := Schema(root).Read(c.field, c.text)
		require.Equal(t, c.want, v, c)
	}
}

// TestReferencesWithoutEndTakeNoTime, and allow every value.
func TestReferencesWithoutEndTakeNoTime(t *testing.T) {
	both := []any{map[string]any{"$ref": "#/$defs/A"}, map[string]any{"$ref": "#/$defs/A"}}
	s := Schema{"$ref": "#/$defs/B", "$defs": map[string]any{"A": map[string]any{"anyOf": both},
		"B": map[string]any{"$ref": "#/$defs/B"}}}
	require.NoError(t, s.Check(s, "a"))
	require.NoError(t, s.Check(Schema{"$ref": "#/$defs/A"}, "a"))
	require.False(t, (&check{root: s}).names(Schema{"$ref": "#/$defs/A"}, "a"))
	require.Less(t, len(s.describe(Schema{"$ref": "#/$defs/A"}, 0)), 4*maxDescribe)
}

// TestManyAlternativesTakeNoMemory: a schema of few bytes has lists that are met again and again.
func TestManyAlternativesTakeNoMemory(t *testing.T) {
	refs := func(name string) (all []any) {
		for range 10_000 {
			all = append(all, map[string]any{"$ref": "#/$defs/" + name})
		}
		return all
	}
	long := make([]any, 10)
	for i := range long {
		long[i] = strings.Repeat("x", 10_000) + strconv.Itoa(i)
	}
	s := Schema{"$defs": map[string]any{"A": map[string]any{"anyOf": refs("A")},
		"B": map[string]any{"anyOf": refs("C")}, "C": map[string]any{"enum": long},
		"D": map[string]any{"type": "object", "required": refs("C")}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, name := range []string{"A", "B", "D"} {
		_ = s.Check(Schema{"$ref": "#/$defs/" + name}, "a")
		_ = (&check{root: s}).names(Schema{"$ref": "#/$defs/" + name}, "a")
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(50<<20))
}
