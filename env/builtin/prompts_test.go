package builtin_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/env/internal/envtest"
	"vagen/internal/testkit"
)

// placeholders are those of each environment: of the system prompt, and of observations.
var placeholders = map[string][2]string{
	"frozenlake": {"{format}{example}", "{valid_action}{turn}{format}"},
	"sokoban":    {"{format}{example}", "{valid_action}{turn}{format}"},
	"blackjack":  {"{format}{example}", "{event}{format}"},
	"navigation": {"{format}{example}{step_length}{success_threshold}{max_steps}",
		"{valid_action}{instruction}{env_feedback}{reward}{done}{format}"},
	"primitive_skill": {"{format}{example}{max_steps}{object_names}",
		"{valid_action}{instruction}{x_workspace}{y_workspace}{z_workspace}{object_names}{object_positions}{other_information}{format}"},
	"svg": {"{format}{example}", "{valid_action}{reward}{format}"},
}

// TestEveryEnvironmentTakesTemplates: every placeholder has a value, and what is not in the
// templates is not in the texts.
func TestEveryEnvironmentTakesTemplates(t *testing.T) {
	registry := builtin.Registry()
	for name, of := range placeholders {
		t.Run(name, func(t *testing.T) {
			system, observation := names(of[0]), names(of[1])
			config := map[string]any{"prompts": map[string]any{
				"system": "S " + system + "{max_actions_per_step}", "first": "F {observation} " + observation,
				"later":  "L {observation} " + observation,
				"format": "HOW {form} {action_sep}",
			}}
			texts := play(t, registry, name, config)
			for i, start := range []string{"S ", "F ", "L "} {
				require.True(t, strings.HasPrefix(texts[i], start), "%q", texts[i])
				require.NotContains(t, texts[i], "{")
				require.Contains(t, texts[i], "format=HOW ")
				require.Equal(t, min(i, 1)*strings.Count(env.ImageMark, "<"), strings.Count(texts[i], env.ImageMark))
			}
			for i, list := range []string{system, observation} {
				for item := range strings.FieldsSeq(list) {
					key, _, _ := strings.Cut(item, "=")
					require.Contains(t, texts[i], key+"=")
				}
			}

			dir := t.TempDir()
			testkit.Write(t, filepath.Join(dir, "system.txt"), "From a file: {default}")
			plain := play(t, registry, name, nil)
			texts = play(t, registry, name, map[string]any{"prompt_dir": dir})
			require.Equal(t, "From a file: "+plain[0], texts[0])
			require.Equal(t, plain[1:], texts[1:])

			_, err := registry.New(name, map[string]any{"prompts": map[string]any{"first": "{nothing}"}})
			testkit.Error(t, err, env.ErrOption, "prompts.first", "{nothing}")
		})
	}
}

// names writes name=value for each placeholder.
func names(list string) string {
	var b strings.Builder
	for name := range strings.SplitSeq(strings.Trim(list, "{}"), "}{") {
		b.WriteString(name + "={" + name + "} ")
	}
	return b.String()
}

// play returns the system prompt, the first observation, and the one after a turn without action.
func play(t *testing.T, registry *env.Registry, name string, config map[string]any) [3]string {
	t.Helper()
	full := map[string]any{"render_mode": "vision"}
	if name == "svg" {
		full = map[string]any{}
	}
	for k, v := range config {
		full[k] = v
	}
	e, err := registry.New(name, full)
	require.NoError(t, err)
	defer e.Close()
	system := envtest.System(t, e)
	first := envtest.Reset(t, e, 3)
	out := envtest.Play(t, e, "nothing")
	return [3]string{system.Text, first.Text, out.Observation.Text}
}

// TestTheLayoutDecidesWhatObservationsRepeat, as in the originals: legacy repeats the format instruction.
func TestTheLayoutDecidesWhatObservationsRepeat(t *testing.T) {
	registry := builtin.Registry()
	const instruction = "Answer in this form:"
	for _, name := range []string{"frozenlake", "sokoban", "navigation"} {
		for _, rules := range []string{"legacy", "lite", "next"} {
			for _, layout := range []string{"", "legacy", "lite", "next"} {
				texts := play(t, registry, name, map[string]any{"rules": rules, "layout": layout})
				repeats := layout == "legacy" || layout == "" && rules == "legacy"
				require.Equal(t, repeats, strings.Contains(texts[2], instruction), "%s, %s rules, layout %q", name, rules, layout)
				require.Equal(t, repeats || name == "navigation", strings.Contains(texts[1], instruction),
					"%s, %s rules, layout %q", name, rules, layout)
				if name == "navigation" {
					require.Equal(t, repeats, strings.Contains(texts[2], "Your task:"))
				}
			}
		}
	}
	for _, name := range []string{"svg", "blackjack"} {
		_, err := registry.New(name, map[string]any{"layout": "lite"})
		require.ErrorContains(t, err, `option "layout": bad option: "lite", must be one of ["legacy"]`)
	}
}
