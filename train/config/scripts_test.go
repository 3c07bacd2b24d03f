package config_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/train/config"
)

// TestEveryOriginalScriptLoadsWithItsSystemItsBaseFileAndWithout: what a script sets for a part
// that is off, such as the critic of GRPO, is noted. With its system, a script means what is in
// testdata/meanings.txt, as a preset does: the settings that are not the defaults, and notes.
func TestEveryOriginalScriptLoadsWithItsSystemItsBaseFileAndWithout(t *testing.T) {
	meanings := map[string]map[string][]string{}
	branches := golden.Table[map[string]map[string]string](t, "scripts.yaml")
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
				c := load("", "system="+system)
				checked = append(checked, c)
				record(meanings, "scripts of "+branch+" with system="+system, script, meaning(t, c))
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
	for _, p := range config.Presets() {
		c, err := config.Source{Preset: p.Name, Overrides: []string{"env=sokoban"}}.Load()
		require.NoError(t, err, p.Name)
		require.Empty(t, warnings(c), p.Name)
		record(meanings, "presets of "+c.System+" with env=sokoban", p.Name, meaning(t, c))
	}
	require.Equal(t, testkit.Text(t, "testdata/meanings.txt"), list(meanings))
}

const paths = " data.train_files=t.yaml data.val_files=v.yaml" +
	" trainer.default_local_dir=d trainer.rollout_data_dir=r trainer.validation_data_dir=v"

// meaning lists the settings of a configuration that differ from the defaults, and its notes in any order. What a run
// stores, and the native form that vagen config import writes, mean the same and have no notes.
func meaning(t *testing.T, c config.Config) []string {
	t.Helper()
	published := config.Default()
	defaults := config.SafeKeys(&published)
	var lines []string
	for i, k := range config.SafeKeys(&c) {
		if value := config.ValueText(k.Value); value != config.ValueText(defaults[i].Value) {
			lines = append(lines, k.Path+": "+value)
		}
	}
	values := len(lines)
	for _, n := range c.Notes {
		kind := "no effect"
		if n.Warn {
			kind = "warning"
		}
		lines = append(lines, kind+": "+strings.Join(n.Keys, ", "))
	}
	slices.Sort(lines[values:])
	require.NotEmpty(t, c.System)
	for _, system := range []string{c.System, ""} {
		stored := c
		stored.System = system
		raw, err := stored.YAML()
		require.NoError(t, err)
		again, err := config.Load(traintest.WriteFile(t, string(raw)))
		require.NoError(t, err)
		require.Empty(t, again.Notes)
		same, err := again.YAML()
		require.NoError(t, err)
		require.Equal(t, string(raw), string(same))
		require.Empty(t, config.Differences(&c, &again), "a run resumes with either")
	}
	return lines
}

func record(all map[string]map[string][]string, group, name string, lines []string) {
	if all[group] == nil {
		all[group] = map[string][]string{}
	}
	all[group][name] = lines
}

// list writes lines by group and name. What all of a group have is written once.
func list(groups map[string]map[string][]string) string {
	var b strings.Builder
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		count := map[string]int{}
		for _, lines := range groups[group] {
			for _, line := range lines {
				count[line]++
			}
		}
		common := func(line string) bool { return count[line] == len(groups[group]) }
		for i, name := range slices.Sorted(maps.Keys(groups[group])) {
			if i == 0 {
				fmt.Fprintf(&b, "%s\n", group)
			}
			for _, line := range groups[group][name] {
				if i == 0 && common(line) {
					fmt.Fprintf(&b, "  %s\n", line)
				}
			}
			fmt.Fprintf(&b, "  %s\n", name)
			for _, line := range groups[group][name] {
				if !common(line) {
					fmt.Fprintf(&b, "    %s\n", line)
				}
			}
		}
	}
	return b.String()
}
