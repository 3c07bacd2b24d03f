package safeyaml

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

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
