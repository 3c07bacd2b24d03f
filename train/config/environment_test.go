package config_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/internal/golden"
	"vagen/internal/traintest"
	"vagen/train/config"
)

// played is what a preset of one of VAGEN's systems plays in an environment.
type played struct {
	Options map[string]any // some of the options, after the environment's defaults
	Limits  []int          // turns, tokens of a turn, tokens of a conversation
}

// plays returns what the presets play. The values are those of the specifications of keys (section 8) and environments
// (sections 3, 4, 6, 8, 9) and of the scripts that they describe, branches vagen-legacy (scripts/examples, and
// scripts/exps of June 2025) and main (examples/train).
func plays(t *testing.T) map[string]map[string]played {
	return golden.Table[map[string]map[string]played](t, "environments.yaml")
}

var paidEnvironments = []string{"blackjack", "frozenlake", "navigation", "primitive_skill", "sokoban"}

// expected returns what a preset plays in each environment.
func expected(t *testing.T, preset string) map[string]played {
	t.Helper()
	all, change := plays(t), ""
	out := all["legacy"]
	switch {
	case strings.HasPrefix(preset, "next_"):
		out = all["next"]
	case strings.HasPrefix(preset, "lite_"):
		out = all["lite"]
	case !slices.Contains([]string{"vanilla_ppo", "masked_grpo", "turn_ppo", "vagen_base", "vagen_full"}, preset):
		change = "release"
	}
	if strings.HasSuffix(preset, "_no_concat") {
		change = "no_concat"
	} else if all[preset] != nil {
		change = preset
	}
	for name, c := range all[change] {
		maps.Copy(out[name].Options, c.Options)
		out[name] = played{out[name].Options, c.Limits}
	}
	return out
}

// TestEveryPresetPlaysWhatItsExperimentsPlayed compares every preset and environment with
// the specifications: rules, pictures, format, rewards and limits.
func TestEveryPresetPlaysWhatItsExperimentsPlayed(t *testing.T) {
	kinds := map[string]builtin.Kind{}
	for _, k := range builtin.Kinds() {
		kinds[k.Name] = k
	}
	for _, p := range config.Presets() {
		want := expected(t, p.Name)
		require.Equal(t, slices.Sorted(maps.Keys(want)), p.Environments, p.Name)
		for name, w := range want {
			c, err := config.Source{Preset: p.Name, Overrides: []string{"env=" + name}}.Load()
			require.NoError(t, err, p.Name, name)
			require.Empty(t, c.Env.Defaults)
			require.Equal(t, w.Limits,
				[]int{c.Rollout.MaxTurns, c.Data.MaxResponse, c.Rollout.MaxTrajectory}, "%s, %s", p.Name, name)
			e, err := builtin.Registry().New(name, c.Env.Config)
			require.NoError(t, err, "%s, %s", p.Name, name)
			require.NoError(t, e.Close())
			for option, value := range w.Options {
				require.Equal(t, fmt.Sprint(value), fmt.Sprint(optionOf(kinds[name], c.Env.Config, option)), "%s, %s: %s",
					p.Name, name, option)
			}
			paid := c.Env.Config["use_state_reward"] == true || c.Env.Config["state_reward"] != nil
			switch p.Name {
			case "vagen_full":
				require.Equal(t, slices.Contains(paidEnvironments, name), paid, name)
			case "next_bi_level":
				require.Equal(t, name == "frozenlake" || name == "sokoban", paid, name)
			default:
				require.False(t, paid, "%s, %s", p.Name, name)
			}
		}
	}
}

// TestVAGENBaseAndFullDifferInStateRewardsAlone, as far as environments are concerned.
func TestVAGENBaseAndFullDifferInStateRewardsAlone(t *testing.T) {
	for name := range plays(t)["legacy"] {
		load := func(preset string) map[string]any {
			c, err := config.Source{Preset: preset, Overrides: []string{"env=" + name}}.Load()
			require.NoError(t, err)
			delete(c.Env.Config, "use_state_reward")
			return c.Env.Config
		}
		require.Equal(t, load("vagen_base"), load("VAGEN-Full"), name)
	}
}

// TestNamesOfPresetsAreThoseOfThePapers, in any case and with any separators.
func TestNamesOfPresetsAreThoseOfThePapers(t *testing.T) {
	for written, name := range golden.Table[map[string]string](t, "presets.yaml") {
		load := func(preset string) config.Config {
			c, err := config.Source{Preset: preset, Overrides: []string{"env=sokoban"}}.Load()
			require.NoError(t, err, written)
			return c
		}
		require.Equal(t, load(name), load(written), written)
	}
	for written, hint := range map[string]string{"TRIKO": "TRICO", "vagen_ful": "vagen_full",
		"GRPO w/ Masks": "GRPO w/ Mask", "_legacy": ""} {
		_, err := config.Source{Preset: written}.Load()
		require.ErrorContains(t, err, "unknown preset")
		if hint != "" {
			require.ErrorContains(t, err, `did you mean "`+hint+`"?`)
		}
	}
	seen := map[string]string{}
	for _, p := range config.Presets() {
		for _, other := range append([]string{p.Name}, p.Also...) {
			folded := strings.Join(strings.FieldsFunc(strings.ToLower(other), func(r rune) bool {
				return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789", r)
			}), "_")
			if before, ok := seen[folded]; ok {
				require.Equal(t, before, p.Name, "%s names two presets", other)
			}
			seen[folded] = p.Name
		}
	}
}

// TestDefaultsOfEnvironmentsAreBelowWhatOthersGive: env.defaults of a file acts as those of
// a preset, and the run's own file, which has the result, reads the same.
func TestDefaultsOfEnvironmentsAreBelowWhatOthersGive(t *testing.T) {
	const file = "env: {defaults: {sokoban: {render_mode: vision, num_boxes: 2}, frozenlake: {size: 6}}}\n"
	load := func(overrides ...string) config.Config {
		t.Helper()
		c, err := config.Source{Path: traintest.WriteFile(t, file), Overrides: overrides}.Load()
		require.NoError(t, err)
		return c
	}
	c := load("env=sokoban", "env.config.num_boxes=3")
	require.Equal(t, map[string]any{"render_mode": "vision", "num_boxes": uint64(3)}, c.Env.Config)
	require.Empty(t, c.Env.Defaults)
	require.Contains(t, c.Notes[0].String(), "env.defaults.frozenlake: the environment is sokoban")
	c = load("env=sokoban", "env.config.num_boxes=null")
	require.Equal(t, map[string]any{"render_mode": "vision"}, c.Env.Config)
	raw, err := c.YAML()
	require.NoError(t, err)
	again, err := config.Load(traintest.WriteFile(t, string(raw)))
	require.NoError(t, err)
	require.Equal(t, c.Env, again.Env, "a removed option stays removed")

	c = load("data.train_files=[a.yaml]", "data.val_files=[b.yaml]", "env.config.render_mode=text",
		"env.defaults.frozenlake.p=0.9")
	require.Equal(t, map[string]any{"render_mode": "text", "num_boxes": uint64(2)}, c.EnvOptions("sokoban"))
	require.Equal(t, map[string]any{"render_mode": "text", "size": uint64(6), "p": 0.9}, c.EnvOptions("frozenlake"))
	require.Equal(t, map[string]any{"render_mode": "text"}, c.EnvOptions("svg"))
	c = load("env=sokoban", "data.val_files=[b.yaml]")
	require.Equal(t, map[string]any{"size": uint64(6)}, c.EnvOptions("frozenlake"), "env.config belongs to sokoban")

	_, err = config.Load("", "env=sokoban", "env.defaults={frozenlake: 3}", "data.val_files=[b.yaml]")
	require.ErrorContains(t, err, "env.defaults is 3 for frozenlake, must be a mapping of options")
}

// TestDataFilesGetThePresetsOptions, whatever environment an entry has.
func TestDataFilesGetThePresetsOptions(t *testing.T) {
	c, err := config.Source{Preset: "vagen_full",
		Overrides: []string{"data.train_files=[a.yaml]", "data.val_files=[b.yaml]"}}.Load()
	require.NoError(t, err)
	require.Empty(t, c.Env.Config)
	for name, w := range plays(t)["legacy"] {
		require.Equal(t, w.Options["prompt_format"], c.EnvOptions(name)["prompt_format"], name)
		require.Equal(t, slices.Contains(paidEnvironments, name), c.EnvOptions(name)["use_state_reward"] == true, name)
	}
	merged := config.MergeOptions(c.EnvOptions("sokoban"),
		map[string]any{"state_reward": map[string]any{"scorer": "rules"}})
	require.NotContains(t, merged, "use_state_reward", "a block replaces it")
	require.Equal(t, true, c.EnvOptions("sokoban")["use_state_reward"], "the maps that are merged stay as they are")
}

// optionOf returns the value of an option after an environment's configuration is read.
func optionOf(k builtin.Kind, given map[string]any, option string) any {
	rules, _ := given["rules"].(string)
	defaults := reflect.ValueOf(k.Defaults(rules))
	o := reflect.New(defaults.Type())
	o.Elem().Set(defaults)
	given = maps.Clone(given)
	delete(given, "state_reward")
	if err := env.Decode(given, o.Interface()); err != nil {
		return err
	}
	return env.OptionValues(o.Interface())[option]
}
