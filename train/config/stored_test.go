package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/config"
)

// TestStoredKeysAreComparedAsTheyAreNow: a key that was added since has its default in the stored
// configuration; one that was removed, or whose default is another now, is a difference with both
// values.
func TestStoredKeysAreComparedAsTheyAreNow(t *testing.T) {
	c := config.Default()
	raw, err := c.Stored()
	require.NoError(t, err)
	line := func(key string) string {
		for l := range strings.Lines(string(raw)) {
			if strings.HasPrefix(strings.TrimSpace(l), key+":") {
				return l
			}
		}
		t.Fatal(key)
		return ""
	}
	// Written before algorithm.lambda_turn and env.val_seed were added, when the default of lam was another.
	older := string(raw)
	for old, was := range map[string]string{line("lambda_turn"): "", line("val_seed"): "", line("lam"): "  lam: 0.5\n"} {
		require.Equal(t, 1, strings.Count(older, old), old)
		older = strings.Replace(older, old, was, 1)
	}
	stored, removed, err := config.ReadStored("older.yaml", []byte(older))
	require.NoError(t, err)
	require.Empty(t, removed)
	lines := config.Differences(&stored, &c)
	require.Equal(t, []string{"algorithm.lam: 0.5 → " + config.ValueText(c.Algorithm.Lambda)}, lines)

	before := config.ValueText(c.Env.ValSeed)
	c.Env.ValSeed = 77
	older += "gone:\n  api_key: secret\n  list: [1, 2]\nlost: {a: 1}\n"
	stored, removed, err = config.ReadStored("older.yaml", []byte(older))
	require.NoError(t, err)
	lines = append(config.Differences(&stored, &c), removed...)
	require.InDelta(t, 0.5, stored.Algorithm.Lambda, 0)
	require.Equal(t, "env.val_seed: "+before+" → 77", lines[0], "the new key does not have its default")
	require.Len(t, lines, 4)
	all := strings.Join(lines, "\n")
	require.Contains(t, all, "lost: {\"a\":1} → no such key")
	require.NotContains(t, all, "secret")

	_, _, err = config.ReadStored("older.yaml", []byte("model: 3\n"))
	require.ErrorIs(t, err, config.ErrConfig)
}
