package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"vagen/internal/presets"
	"vagen/internal/settings"
	"vagen/train/config/internal/vagen"
)

// baseSources has the sources below a file and overrides: the defaults of a generation, a preset
// with its settings for an environment, and env.defaults of that environment.
type baseSources struct {
	preset, system string
	played         string // the environment; "" if data files name it
	layers         []presets.Layer
	defaults       []byte // a document with env.defaults of the preset; nil for none
	given          []byte // a document with env.config from the user's env.defaults; nil for none
}

// read reads the preset's documents for an environment, "" for none.
func (b *baseSources) read(environment string) (err error) {
	if b.preset != "" {
		b.layers, err = presets.Layers(b.preset, environment)
	}
	return err
}

// any reports whether there are sources.
func (b *baseSources) any() bool {
	return b.preset != "" || b.given != nil || vagen.Document(b.system, b.played) != nil
}

// loader returns a loader of c that has read the sources.
func (b *baseSources) loader(c *Config) *settings.Loader {
	l := settings.NewLoader(c, vagen.Keys())
	if raw := vagen.Document(b.system, b.played); raw != nil {
		l.Base("system "+b.system, raw)
		c.System = b.system
	}
	for _, p := range b.layers {
		l.Base("preset "+p.Name, p.YAML)
	}
	if b.defaults != nil {
		l.Base("preset "+b.preset, b.defaults)
	}
	if b.given != nil {
		l.Base("env.defaults", b.given)
	}
	return l
}

// environment reads the settings for the environment that a configuration names. If
// environments are named by data files, it reads the options of all.
func (b *baseSources) environment(c *Config) (err error) {
	options := map[string]any{}
	if c.Env.Name == "" || len(c.Data.TrainFiles) > 0 || len(c.Data.ValFiles) > 0 {
		for _, name := range presets.Environments(b.preset) {
			part := baseSources{preset: b.preset}
			if err := part.read(name); err != nil {
				return err
			}
			alone := Default()
			part.loader(&alone).Finish()
			options[name] = alone.Env.Config
		}
	}
	if len(options) > 0 {
		if b.defaults, err = envDocument(nil, options); err != nil {
			return err
		}
	}
	if given, ok := c.Env.Defaults[c.Env.Name].(map[string]any); ok && c.Env.Name != "" {
		if b.given, err = envDocument(given, nil); err != nil {
			return err
		}
	}
	b.played = c.Env.Name
	return b.read(c.Env.Name)
}

// envDocument writes a document with env.config and env.defaults.
func envDocument(config, defaults map[string]any) ([]byte, error) {
	var doc struct {
		Env struct {
			Config   map[string]any `yaml:"config"`
			Defaults map[string]any `yaml:"defaults"`
		} `yaml:"env"`
	}
	doc.Env.Config, doc.Env.Defaults = config, defaults
	return settings.Marshal(&doc)
}

// dropDefaults removes what env.defaults has for env.name, which is in env.config, and all
// of it if no data file names further environments.
func (in *loaded) dropDefaults() {
	e, data := &in.config.Env, &in.config.Data
	completeBlock(e.Config, in.base.Env.Config, e.Name)
	if e.Name == "" {
		return
	}
	others := maps.Clone(e.Defaults)
	delete(others, e.Name)
	if len(data.TrainFiles) > 0 || len(data.ValFiles) > 0 {
		e.Defaults = others
		return
	}
	e.Defaults = nil
	var unused []string
	for key, g := range in.given {
		if rest, ok := strings.CutPrefix(key, "env.defaults."); ok && !g.Base {
			if name, _, _ := strings.Cut(rest, "."); name != e.Name {
				unused = append(unused, key)
			}
		} else if value, ok := g.Value.(map[string]any); ok && key == "env.defaults" && !g.Base {
			for name := range value {
				if name != e.Name {
					unused = append(unused, key+"."+name)
				}
			}
		}
	}
	slices.Sort(unused)
	for _, key := range slices.Compact(unused) {
		in.notes = append(in.notes, settings.Note{Key: key, About: "the environment is " + e.Name +
			", and no data files name others"})
	}
}

// EnvOptions returns the options that entries of data files for an environment add to: its
// env.defaults with env.config on top. If env.name is another environment, env.config is
// left out.
func (c *Config) EnvOptions(name string) map[string]any {
	defaults, _ := c.Env.Defaults[name].(map[string]any)
	if c.Env.Name != "" && c.Env.Name != name {
		return MergeOptions(defaults, nil)
	}
	options := MergeOptions(defaults, c.Env.Config)
	completeBlock(options, defaults, name)
	return options
}

// MergeOptions returns the options of an environment with others on top, as a file adds to
// those of a preset: null removes an option, and a block state_reward removes use_state_reward
// and its weights, as use_state_reward removes a block. Neither map changes.
func MergeOptions(below, top map[string]any) map[string]any {
	field, _ := reflect.TypeFor[EnvConfig]().FieldByName("Config")
	out := settings.Merge(below, top, field.Tag)
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
	return out
}

// environments checks env.defaults.
func (v *validator) environments(c *Config) {
	for _, name := range slices.Sorted(maps.Keys(c.Env.Defaults)) {
		if options := c.Env.Defaults[name]; options != nil {
			if _, ok := options.(map[string]any); !ok {
				v.Bad("env.defaults", "%s for %s, must be a mapping of options", fmt.Sprint(options), name)
			}
		}
	}
}

// PresetEnvironments lists the environments that presets have settings for, in alphabetical
// order. A program's registry may lack some of them.
func PresetEnvironments() []string {
	var out []string
	for _, p := range Presets() {
		out = append(out, p.Environments...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
