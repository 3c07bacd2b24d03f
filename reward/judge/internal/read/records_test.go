package read

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKeysThatOccurAgainAreNumberedInTurn: each is looked up a few times, not once for each of those before it.
func TestKeysThatOccurAgainAreNumberedInTurn(t *testing.T) {
	require.Equal(t, map[string]any{"a": 1.0, "a_2": 2.0, "a_3": 3.0, "a_4": 4.0, "b": 5.0, "b_2": 6.0},
		yamlText("a: 1\na_2: 2\na: 3\na: 4\nb: 5\nb: 6\n"))
	const n = 2000
	text := strings.Repeat("a:\n", n)
	require.Less(t, testing.AllocsPerRun(1, func() { yamlText(text) }), 100.0*n)
}

func TestTablesOfManyColumnsAreNotRead(t *testing.T) {
	table := func(columns int) string {
		line := func(cell string) string { return strings.Repeat("|"+cell, columns) + "\n" }
		return "object|vertical|horizontal" + line("x") + "hole|above|left" + line("1")
	}
	require.Len(t, tableValue(table(maxColumns-3)), 1)
	require.Nil(t, tableValue(table(maxColumns-2)))
	require.Nil(t, tableValue(table(1)+strings.Repeat(" ", maxLiteral)+"|"))
}
