// Package vagen has what package config needs to read files and overrides of VAGEN's generations:
// their keys, defaults and names, as tables in YAML. See package config for why it is below that one.
package vagen

import (
	"embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"vagen/internal/settings"
)

//go:embed keys.yaml generations.yaml
var files embed.FS

// Default is a setting whose default differs between generations.
type Default struct {
	Key string
	In  map[string]string // by generation, as YAML; a missing one has this library's default
}

// tables is the content of the files.
type tables struct {
	Texts map[string]string
	Keys  []struct {
		Keys             []string
		settings.Foreign `yaml:",inline"`
	}
	Generations []string
	Defaults    []Default
	Estimators  []struct{ Generation, Name, Here string }
	Rules       struct {
		Environments []string
		In           map[string]string
	}
	Marks []struct {
		Generation string
		Keys       []string
	}
	Given   map[string][]string
	foreign []settings.Foreign
}

// read returns the content of the files. It must not be changed.
var read = sync.OnceValue(func() *tables {
	var t tables
	for _, name := range []string{"keys.yaml", "generations.yaml"} {
		raw, err := files.ReadFile(name)
		if err == nil {
			err = yaml.UnmarshalWithOptions(raw, &t, yaml.Strict())
		}
		if err != nil {
			panic(fmt.Sprintf("vagen: %s: %v", name, err)) // the files are constant
		}
	}
	for _, group := range t.Keys {
		f := group.Foreign
		f.About = os.Expand(f.About, func(name string) string { return t.Texts[name] })
		if f.About == "" {
			f.About = "another name of " + f.To
		}
		for _, f.Key = range group.Keys {
			t.foreign = append(t.foreign, f)
		}
	}
	return &t
})

// Keys lists the keys of VAGEN, and of verl, on which VAGEN is built, that are not settings here. The
// first entry that covers a key applies. The list must not be changed.
func Keys() []settings.Foreign { return read().foreign }

// Generations lists the generations.
func Generations() []string { return read().Generations }

// Defaults lists the settings whose defaults differ between generations.
func Defaults() []Default { return read().Defaults }

// Document writes the defaults of a generation as YAML; nil for other names. environment is the
// one that is played, "" if data files name them.
func Document(generation, environment string) []byte {
	t := read()
	if !slices.Contains(t.Generations, generation) {
		return nil
	}
	var b strings.Builder
	for _, d := range t.Defaults {
		if value, differs := d.In[generation]; differs {
			fmt.Fprintf(&b, "%s: %s\n", d.Key, value)
		}
	}
	if rules, differ := t.Rules.In[generation]; differ {
		for _, name := range t.Rules.Environments {
			switch environment {
			case name:
				fmt.Fprintf(&b, "env.config.rules: %s\n", rules)
			case "":
				fmt.Fprintf(&b, "env.defaults.%s: {rules: %s}\n", name, rules)
			}
		}
	}
	return []byte(b.String())
}

// Estimator returns this library's name of the estimator that has a name in a generation.
func Estimator(generation, name string) string {
	for _, e := range read().Estimators {
		if e.Generation == generation && e.Name == name {
			return e.Here
		}
	}
	return name
}

// Given reports whether scripts give a setting to an estimator that does not read it.
func Given(key, estimator string) bool { return slices.Contains(read().Given[key], estimator) }

// Marked returns the newest generation that alone has some of the keys, and these.
func Marked(keys []string) (generation string, own []string) {
	for _, g := range read().Marks {
		for _, key := range keys {
			if slices.ContainsFunc(g.Keys, func(pattern string) bool { return settings.Covers(pattern, key) }) {
				own = append(own, key)
			}
		}
		if len(own) > 0 {
			return g.Generation, own
		}
	}
	return "", nil
}

// Page lists the defaults that differ, and the names of estimators, in markdown. ours has this
// library's defaults by key, as YAML.
func Page(ours map[string]string) string {
	t := read()
	var b strings.Builder
	b.WriteString("## Defaults that differ between generations\n\nAn empty cell is this library's default. " +
		"`vagen config show --diff` shows these columns for a configuration.\n\n" +
		"| key | this library | `" + strings.Join(t.Generations, "` | `") + "` |\n| --- | --- | --- | --- | --- |\n")
	row := func(key, here string, in map[string]string) {
		fmt.Fprintf(&b, "| %s | `%s` |", key, here)
		for _, g := range t.Generations {
			value := in[g]
			if value != "" {
				value = "`" + value + "`"
			}
			b.WriteString(" " + value + " |")
		}
		b.WriteString("\n")
	}
	for _, d := range t.Defaults {
		row("`"+d.Key+"`", ours[d.Key], d.In)
	}
	row("`env.config.rules` of "+strings.Join(t.Rules.Environments, ", "), "lite", t.Rules.In)
	b.WriteString("\n| `algorithm.adv_estimator` in | means here |\n| --- | --- |\n")
	for _, e := range t.Estimators {
		fmt.Fprintf(&b, "| `%s`: `%s` | `%s` |\n", e.Generation, e.Name, e.Here)
	}
	return b.String() + "\n"
}
