package vagen

import (
	"fmt"
	"strings"

	"vagen/internal/settings"
)

// ConfigDoc is a page in markdown about every key of configurations and every preset,
// made from what Settings and Presets say. docs/config.md is this page.
func ConfigDoc() string {
	var b strings.Builder
	b.WriteString("# Configuration keys\n\nMade by `vagen config doc`. Keys are set in YAML, nested or dotted, or as `key=value` after the file;\n" +
		"later ones win, and `${other.key}` takes another key's value.\n\n## Presets\n\n| name | what it is |\n| --- | --- |\n")
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
