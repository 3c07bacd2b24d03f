package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/rollout/gateway/internal/dialect"
)

// FuzzPython: calls in Python's notation are read, or not at all, from any text.
func FuzzPython(f *testing.F) {
	for _, text := range []string{
		"Calling tools:\n" + `[{'id': 'c', 'function': {'name': 'f', 'arguments': {'a': 'it\'s \x41\u00e9', 'b': None}}}]`,
		"x Calling tools:\n" + `[{'function': {'name': "f", 'arguments': "{\"a\": 1}"}}]`, "Calling tools:\n['\\",
		"Calling tools:\n[True, False", "Calling tools:\n[]",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		before, calls := written(text)
		require.LessOrEqual(t, len(before), len(text))
		a := &dialect.Answer{Text: before, Calls: calls}
		_, same := echo(a, []dialect.Message{{Role: dialect.Assistant, Text: text}})
		require.True(t, same || len(calls) == 0, "%q", text)
	})
}
