package config

import (
	"fmt"
	"strings"

	"vagen/internal/settings"
)

// Page is a page in markdown about every key of configurations and every preset,
// made from what Settings and Presets say. docs/config.md is this page.
func Page() string {
	var b strings.Builder
	b.WriteString("# Configuration keys\n\nMade by `vagen config doc`. Keys are set in YAML, nested or dotted, or as `key=value` after the file;\n" +
		"later ones win, and `${other.key}` takes another key's value.\n\n" + configRules + "## Presets\n\n| name | what it is |\n| --- | --- |\n")
	for _, p := range Presets() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", p.Name, cell(p.About))
	}
	b.WriteString("\n## Settings\n\n| key | default | unit | meaning |\n| --- | --- | --- | --- |\n")
	all := Settings()
	for _, s := range all {
		if s.Kind != "setting" {
			continue
		}
		text, err := settings.Text(s.Default)
		if err != nil {
			text = fmt.Sprint(s.Default)
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", s.Key, text, s.Unit, cell(s.About))
	}
	b.WriteString("\n## Keys of VAGEN and verl that set nothing here\n\n`noted` ones are accepted and named at the start of a run, `refused` ones are errors unless their value asks for nothing,\n" +
		"an `alias` is another name.\n\n| key | | instead |\n| --- | --- | --- |\n")
	for _, s := range all {
		if s.Kind != "setting" {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Key, s.Kind, cell(s.About))
		}
	}
	return b.String()
}

// cell keeps a text inside its cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

// configRules say how the parts of a configuration go together.
const configRules = `## Rules

- ` + "`system: legacy`, `lite` or `next`" + ` takes the defaults of that generation of VAGEN, and its names: ` + "`gae` and `grpo`" + ` of lite and next are
  ` + "`lite_gae` and `lite_grpo`" + ` here, ` + "`bi_level_gae`" + ` of next is ` + "`trajectory_bi_level_gae`" + `. Presets set it. A file with keys of one
  generation and without ` + "`system`" + ` is read with this library's defaults; a warning names those that differ.
- Maps such as ` + "`env.config` and `filter.filter_kwargs`" + ` are merged: a file or an override adds entries to a preset's. An entry that is
  null is removed; ` + "`env.config: null`" + ` removes all of them, and ` + "`env.config.size: 6`" + ` below it starts anew.
- ` + "`env.config.state_reward`" + ` replaces a preset's ` + "`use_state_reward`" + ` and its weights; null, false or ` + "`state_reward.enabled: false`" + ` switch it off.
- A setting that the estimator, the loss, the harness or another setting leaves without effect is an error when a file or an
  override gives it a value of its own. Settings that the original's files contain anyway are accepted with a note. What a preset
  sets for its own estimator returns to the default under another one. A file with every key, as a run writes it, gets warnings.
- ` + "`actor_rollout_ref.rollout.name: vllm`, `sglang` or `hf`" + ` loads with a warning: generation runs in this process.

`
