package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStoredResultsOfEqualSettingsAreUsed: also if a key, or a field of the warm start, was added since
// and has its default. What differs is listed with both values.
func TestStoredResultsOfEqualSettingsAreUsed(t *testing.T) {
	s := tinyStudy(t, "", io.Discard)
	c, err := s.configure(full, 3, "go")
	require.NoError(t, err)
	raw, err := s.settings(c)
	require.NoError(t, err)
	differences := func(stored string) []string {
		lines, err := s.differences("config.yaml", []byte(stored), c)
		require.NoError(t, err)
		return lines
	}
	replace := func(old, now string) string {
		require.Contains(t, string(raw), old)
		return strings.Replace(string(raw), old, now, 1)
	}
	require.Empty(t, differences(string(raw)))
	require.Empty(t, differences(replace("  waves: 1\n", "")), "the key has its default")
	require.Empty(t, differences(replace(" slips:0", "")), "the lesson has no slips")
	require.Empty(t, differences(replace(" Beta2:0.999", "")), "the optimiser has its default")

	require.Equal(t, []string{"run.waves: 2 → 1"}, differences(replace("  waves: 1\n", "  waves: 2\n")),
		"its default was 2")
	require.Equal(t, []string{"run.speed: 5 → no such key"},
		differences(replace("  waves: 1\n", "  waves: 1\n  speed: 5\n")))
	for old, was := range map[string]string{"noise 0.7": "noise 0.5", "slips:0": "slips:0.3", "Beta2:0.999": "Beta2:0.99",
		"episodes:8": "episodes:9", "statements: false": "statements: true"} {
		stored := replace(old, was)
		lines := differences(stored)
		require.Len(t, lines, 1, old)
		require.True(t, strings.HasPrefix(lines[0], "warm start: noise"), lines[0])
		before, after, _ := strings.Cut(lines[0], "→")
		require.Contains(t, before, was)
		require.Contains(t, after, old)
	}
	all, _, _ := strings.Cut(string(raw), startMark)
	require.Contains(t, differences(all)[0], "warm start: none → noise 0.7")
	_, err = s.differences("config.yaml", []byte("run: 3\n"), c)
	require.Error(t, err)
}
