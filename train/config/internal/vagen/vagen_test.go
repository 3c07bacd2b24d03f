package vagen

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/settings"
)

var textNames = regexp.MustCompile(`\$\{(\w+)\}`)

// TestTheTablesNameOnlyWhatTheyHave: kinds, texts and generations; a misspelled one would have no effect.
func TestTheTablesNameOnlyWhatTheyHave(t *testing.T) {
	tables := read()
	for _, f := range Keys() {
		require.Contains(t, []settings.Kind{settings.Alias, settings.Noted, settings.Refused}, f.Kind, f.Key)
		require.Equal(t, f.Kind == settings.Alias, f.To != "", f.Key)
		require.Greater(t, len(f.About), 10, f.Key)
	}
	for name, text := range tables.Texts {
		require.Greater(t, len(text), 10, name)
	}
	for _, group := range tables.Keys {
		for _, part := range textNames.FindAllStringSubmatch(group.About, -1) {
			require.Contains(t, tables.Texts, part[1])
		}
	}
	named := func(in map[string]string) {
		for generation := range in {
			require.Contains(t, Generations(), generation)
		}
	}
	for _, d := range Defaults() {
		named(d.In)
	}
	named(tables.Rules.In)
	for _, e := range tables.Estimators {
		require.Contains(t, Generations(), e.Generation)
		require.Equal(t, e.Here, Estimator(e.Generation, e.Name))
	}
	for _, m := range tables.Marks {
		require.Contains(t, Generations(), m.Generation)
	}
}

// TestADocumentHasTheRulesOfTheEnvironmentThatIsPlayed, and without one those of all.
func TestADocumentHasTheRulesOfTheEnvironmentThatIsPlayed(t *testing.T) {
	require.Contains(t, string(Document("next", "sokoban")), "\nenv.config.rules: next\n")
	require.NotContains(t, string(Document("next", "blackjack")), "rules")
	require.NotContains(t, string(Document("lite", "sokoban")), "rules", "they are this library's")
	require.Contains(t, string(Document("legacy", "")), "\nenv.defaults.navigation: {rules: legacy}\n")
	require.Nil(t, Document("", "sokoban"))
}

// TestKeysMarkTheNewestGenerationThatAloneHasThem.
func TestKeysMarkTheNewestGenerationThatAloneHasThem(t *testing.T) {
	generation, own := Marked([]string{"algorithm.gamma", "env_registry.x", "rollout_manager.window_size"})
	require.Equal(t, "lite", generation)
	require.Equal(t, []string{"env_registry.x"}, own)
	generation, own = Marked([]string{"algorithm.gamma"})
	require.Empty(t, generation)
	require.Empty(t, own)
}
