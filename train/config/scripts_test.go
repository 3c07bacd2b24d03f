package config_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/train/config"
)

// TestEveryOriginalScriptLoadsWithItsSystemItsBaseFileAndWithout: what a script sets for a part
// that is off, such as the critic of GRPO, is noted.
func TestEveryOriginalScriptLoadsWithItsSystemItsBaseFileAndWithout(t *testing.T) {
	raw, err := os.ReadFile("testdata/scripts.yaml")
	require.NoError(t, err)
	var branches map[string]map[string]string
	require.NoError(t, yaml.Unmarshal(raw, &branches))
	const paths = " data.train_files=t.yaml data.val_files=v.yaml trainer.default_local_dir=d trainer.rollout_data_dir=r trainer.validation_data_dir=v"
	for branch, of := range map[string]struct {
		base    string
		systems []string
	}{
		"vagen-legacy": {legacyBase, []string{"legacy"}},
		"vagen-lite":   {liteBase, []string{"lite"}},
		"main":         {nextBase, []string{"lite", "next"}},
	} {
		base := traintest.WriteFile(t, of.base)
		require.NotEmpty(t, branches[branch])
		for script, own := range branches[branch] {
			args := strings.Fields(branches[branch]["all"] + " " + own + paths)
			load := func(file string, more ...string) config.Config {
				t.Helper()
				got, err := config.Load(file, append(more, args...)...)
				require.NoError(t, err, "%s %s %v", branch, script, more)
				return got
			}
			if script == "all" {
				continue
			}
			load("")
			checked := []config.Config{load(base, "system="+of.systems[0])}
			for _, system := range of.systems {
				checked = append(checked, load("", "system="+system))
			}
			sets := strings.Contains(strings.Join(args, " "), "critic.model.path=")
			for _, got := range checked {
				noted := slices.ContainsFunc(
					got.Notes, func(n config.Note) bool { return slices.Contains(n.Keys, "critic.model.path") },
				)
				require.Equal(t, sets && got.Critic.Kind == "none", noted, "%s %s", branch, script)
				require.Equal(t, sets && got.Critic.Kind == "separate", got.CriticPath() != "", "%s %s", branch, script)
			}
		}
	}
}
