package train_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env/builtin"
	"vagen/train"
	"vagen/train/config"
)

// TestEveryTemplateSuitsEveryPresetOfItsSystem: docs/templates has files for each
// environment; those in the folder paper are for presets of the first system, those in next
// for the newest, the others for Lite. All environments of the files can be made, and none
// of the validation levels is trained on.
func TestEveryTemplateSuitsEveryPresetOfItsSystem(t *testing.T) {
	const root = "../docs/templates"
	known := builtin.Registry()
	var environments []string
	systems := map[string]string{} // of presets
	for _, p := range config.Presets() {
		c, err := config.Source{Preset: p.Name, Overrides: []string{"env.name=frozenlake"}}.Load()
		require.NoError(t, err, p.Name)
		systems[p.Name] = c.System
	}
	for _, pattern := range []string{"*/run.yaml", "*/*/run.yaml"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, path := range paths {
			folder := filepath.Dir(path)
			name, of, _ := strings.Cut(strings.TrimPrefix(filepath.ToSlash(folder), root+"/"), "/")
			system := map[string]string{"": "lite", "paper": "legacy", "next": "next"}[of]
			environments = append(environments, name+" "+system)
			for _, p := range config.Presets() {
				own := systems[p.Name]
				if own != system && (own != "next" || of != "" || name != "svg" && name != "blackjack") {
					continue
				}
				s := config.Source{Preset: p.Name, Path: path, Overrides: []string{
					"data.train_files=[" + filepath.Join(folder, "train.yaml") + "]", "data.val_files=[" +
						filepath.Join(folder, "val.yaml") + "]"}}
				c, err := s.Load()
				require.NoError(t, err, "%s with %s", path, p.Name)
				require.Equal(t, own, c.System)
				if !slices.Contains([]string{"lite_ppo", "vagen_base", "vagen_full", "next_ppo", "next_bi_level"}, p.Name) {
					continue // others of a system have the same options
				}
				l, err := train.OpenLevels(t.Context(), &c, known.Names())
				require.NoError(t, err, "%s with %s", path, p.Name)
				require.Equal(t, name, l.String())
				if name != "svg" { // built-in icons, drawn with repetition
					require.NoError(t, l.Shared, path)
				}
				for _, e := range l.Samples(20) {
					made, err := known.New(e.Env, e.Config)
					require.NoError(t, err, "%s with %s", path, p.Name)
					require.NoError(t, made.Close())
					paid := e.Config["use_state_reward"] == true
					require.Equal(t, p.Name == "vagen_full" && name != "svg" || p.Name == "next_bi_level" &&
						(name == "sokoban" || name == "frozenlake"), paid, "%s with %s", path, p.Name)
				}
			}
		}
	}
	slices.Sort(environments)
	require.Equal(t, []string{"blackjack legacy", "blackjack lite", "frozenlake legacy", "frozenlake lite",
		"frozenlake next", "navigation legacy", "navigation lite", "navigation next",
		"primitive_skill legacy", "primitive_skill lite", "primitive_skill next", "sokoban legacy", "sokoban lite",
		"sokoban next", "svg legacy", "svg lite"}, environments)
}
