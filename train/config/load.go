package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"vagen/internal/field"
	"vagen/internal/presets"
	"vagen/internal/regular"
	"vagen/internal/settings"
	"vagen/internal/silent"
	"vagen/reward/judge"
	"vagen/train/config/internal/vagen"
)

// Note is a remark on keys of a configuration: they have no effect here, or may have
// another meaning than expected.
type Note struct {
	Keys  []string
	About string
	Warn  bool // the run may differ from what the user expects
}

// String returns the note on one line.
func (n Note) String() string { return strings.Join(n.Keys, ", ") + ": " + n.About }

// LogNotes logs the notes of a configuration, warnings at level warn.
func (c *Config) LogNotes(log *slog.Logger) {
	log = silent.Log(log)
	for _, n := range c.Notes {
		if n.Warn {
			log.Warn("configuration: "+n.About, "keys", n.Keys)
		} else {
			log.Info("configuration: keys of other systems without effect", "keys", n.Keys, "about", n.About)
		}
	}
}

// Load reads a YAML file on top of the defaults and applies key=value overrides. It
// reports all errors at once, contradictions included, with the line of the file or
// the number of the override. path may be "". Keys that are accepted without effect
// are in the configuration's Notes.
func Load(path string, overrides ...string) (Config, error) {
	return Registries{}.LoadConfig(path, overrides...)
}

// LoadConfig is the function Load with these registries.
func (r Registries) LoadConfig(path string, overrides ...string) (Config, error) {
	return r.Load(Source{Path: path, Overrides: overrides})
}

// Source is what a configuration is read from. Later parts override earlier ones: the
// defaults, a preset, a YAML file, overrides of the form key=value.
type Source struct {
	Preset    string // "" for none
	Path      string // "" for none
	Overrides []string
	// Unchecked skips the checks of Validate: the result may be incomplete.
	Unchecked bool
}

// Name returns the name of the source: its file, else its preset.
func (s Source) Name() string {
	switch {
	case s.Path != "":
		return s.Path
	case s.Preset != "":
		return "preset " + s.Preset
	}
	return "this"
}

// Load reads the configuration; see the function Load.
func (s Source) Load() (Config, error) { return Registries{}.Load(s) }

// Load is Source.Load with these registries.
func (r Registries) Load(s Source) (Config, error) {
	in, err := s.load(r.WithBuiltins())
	return in.config, err
}

// load reads the configuration, adds notes, and checks it.
func (s Source) load(r Registries) (in loaded, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("config: %w: %w", ErrConfig, err)
		}
	}()
	if in, err = s.read(""); err != nil {
		return in, err
	}
	c := &in.config
	in.withoutCritic(r, s.Path)
	in.notes = append(in.notes, in.refuseUnread(r)...)
	c.Notes = append(gatherNotes(in.notes), c.Notes...)
	c.idle(r, in.given)
	if err = s.generation(&in); err != nil {
		return in, err
	}
	c.warnings()
	if err = s.otherSystem(&in); err != nil {
		return in, err
	}
	if !s.Unchecked {
		problems := c.problems(r)
		for _, err := range append(problems, in.unreadProblems(problems)...) {
			in.problems = append(in.problems, located(err, in.given))
		}
	}
	return in, errors.Join(in.problems...)
}

// loaded is a configuration with information on how it was read.
type loaded struct {
	config   Config
	notes    []settings.Note
	given    map[string]settings.Given
	problems []error
	unread   []*field.Error
	base     Config // the configuration before the file and the overrides
}

// read reads the parts of a source on top of the defaults of the generation system, or
// if that is empty, of the generation that the source names.
func (s Source) read(system string) (loaded, error) {
	in := loaded{config: Default()}
	var raw []byte
	if s.Path != "" {
		var err error
		if raw, err = regular.ReadFile(s.Path); err != nil {
			return in, err
		}
	}
	under := baseSources{preset: s.Preset, system: system}
	if err := under.read(""); err != nil {
		return in, err
	}
	fill := func() {
		in.config = Default()
		l := under.loader(&in.config)
		if s.Path != "" {
			l.YAML(s.Path, raw)
		}
		l.Overrides(s.Overrides)
		in.notes, in.given, in.problems = l.Finish()
	}
	fill()
	if system == "" { // the source's own value of system
		under.system = in.config.System
	}
	if err := under.environment(&in.config); err != nil {
		return in, err
	}
	if under.any() { // which may depend on what the source says
		fill()
	}
	in.base = Default()
	under.loader(&in.base).Finish() // its errors are already in problems
	in.base.Algorithm.Estimator = in.base.estimatorName()
	c := &in.config
	if _, given := in.given["trainer.total_training_steps"]; !given && len(c.Data.TrainFiles) > 0 {
		c.Trainer.Steps = StepsFromEpochs
	}
	c.Algorithm.Estimator = c.estimatorName()
	in.dropDefaults()
	return in, nil
}

// Preset describes a named configuration.
type Preset struct {
	Name  string   `json:"name"`
	About string   `json:"about"`
	Also  []string `json:"also,omitempty"` // other names; letter case and separators do not matter
	// Environments are those that the preset has settings for.
	Environments []string `json:"environments,omitempty"`
}

// Presets lists the presets, which Source.Preset and --preset select by name.
func Presets() []Preset {
	var out []Preset
	for _, p := range presets.All() {
		out = append(out, Preset{Name: p.Name, About: p.About, Also: p.Also, Environments: presets.Environments(p.Name)})
	}
	return out
}

// warn adds a warning about a key if it is due.
func (c *Config) warn(due bool, key, about string) {
	if due {
		c.Notes = append(c.Notes, Note{Keys: []string{key}, About: about, Warn: true})
	}
}

// warnings warns of settings that are allowed, but probably have another effect than the one intended.
func (c *Config) warnings() {
	_, partial := partialBlock(c.Env.Config)
	c.warn(partial && len(c.Env.Defaults) == 0, "env.config.state_reward", "it rewards no statements: enable "+
		"state_estimation or transition_prediction in it, each with a reward, or set enabled to false")
	if c.Trainer.Stage != StageSFT {
		c.warnOfLosses()
	}
	if s := c.stateReward(); s.Enabled() && s.Scorer != judge.ByModel {
		named := s.JudgeURL != "" || s.JudgeModel != "" || s.Service != judge.DefaultService()
		c.warn(named, "env.config.state_reward.scorer", "it is "+s.Scorer+
			", so that judge_base_url, judge_model and judge have no effect: set it to judge to ask the model")
	}
}

// gatherNotes merges notes with equal texts into one.
func gatherNotes(notes []settings.Note) []Note {
	var out []Note
	at := map[string]int{}
	for _, n := range notes {
		i, ok := at[n.About]
		if !ok {
			i, at[n.About] = len(out), len(out)
			out = append(out, Note{About: n.About})
		}
		out[i].Keys = append(out[i].Keys, n.Key)
	}
	return out
}

// Locate adds to an error about settings of the source, from a check outside of this package,
// where they were given.
func (s Source) Locate(err error) error {
	in, failed := s.read("")
	if failed != nil {
		return err
	}
	return located(err, in.given)
}

// giver returns the entry of given that has a key: its own, or that of a mapping above it.
func giver(given map[string]settings.Given, key string) settings.Given {
	if g, ok := given[key]; ok {
		return g
	}
	for at := strings.LastIndexByte(key, '.'); at >= 0; at = strings.LastIndexByte(key[:at], '.') {
		g := given[key[:at]]
		value := g.Value
		for name := range strings.SplitSeq(key[at+1:], ".") {
			m, _ := value.(map[string]any)
			value = m[name]
		}
		if value != nil {
			return g
		}
	}
	return settings.Given{}
}

// located adds to an error where the settings that it names were given.
func located(err error, given map[string]settings.Given) error {
	var places []string
	byName := maps.Clone(given) // with the aliases that were written
	for _, g := range given {
		byName[g.Name] = g
	}
	for _, w := range field.Keys(err) {
		g := giver(byName, w)
		if g.Where != "" && !slices.Contains(places, g.Where) {
			places = append(places, g.Where)
		}
	}
	if len(places) == 0 {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(places, ", "))
}

// Override applies one key=value.
func (c *Config) Override(assignment string) error {
	system := c.System
	l := settings.NewLoader(c, vagen.Keys())
	l.Overrides([]string{assignment})
	notes, _, problems := l.Finish()
	if c.System != system {
		problems = append(problems, fmt.Errorf(
			"system is %q, but the configuration was loaded with the defaults of %q: set it when the configuration is loaded",
			c.System, system))
		c.System = system
	}
	if len(problems) > 0 {
		return fmt.Errorf("config: %w: %w", ErrConfig, errors.Join(problems...))
	}
	c.Notes = append(slices.Clip(c.Notes), gatherNotes(notes)...)
	c.Algorithm.Estimator = c.estimatorName()
	return nil
}

// YAML writes the configuration with every key.
func (c *Config) YAML() ([]byte, error) {
	if c == nil {
		return nil, errNil
	}
	return settings.Marshal(c)
}

// Setting describes a key of configurations.
type Setting struct {
	Key     string  `json:"key"`
	Kind    string  `json:"kind"` // "setting"; for keys of other systems "noted", "refused" or "alias"
	About   string  `json:"about"`
	Unit    string  `json:"unit,omitempty"`   // "" for none
	Default any     `json:"default"`          // only of settings; nil is null
	Values  []Value `json:"values,omitempty"` // names that it may have, see Registries.Values; nil for other settings
}

// Settings lists the keys of configurations: first the settings, in their order, then
// the known keys of other systems, in alphabetical order. A part * of such a key
// matches any part, and at its end any number of parts.
func Settings() []Setting {
	c, names := Default(), Registries{}.WithBuiltins() // once: an estimator finds out what it reads by evaluating rows
	var out []Setting
	for _, k := range settings.Keys(&c) {
		out = append(out, Setting{Key: k.Path, Kind: "setting", About: k.Doc, Unit: k.Unit, Default: k.Value,
			Values: names.Values(k.Path)})
	}
	others := map[string]Setting{}
	for _, f := range vagen.Keys() {
		if _, ok := others[f.Key]; !ok {
			others[f.Key] = Setting{Key: f.Key, Kind: string(f.Kind), About: f.About}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(others)) {
		out = append(out, others[key])
	}
	return out
}

// Explain describes one key, also a key of another system that an entry with * covers.
func Explain(key string) (Setting, bool) {
	for _, s := range Settings() {
		if s.Key == key && s.Kind == "setting" {
			return s, true
		}
	}
	if f := settings.FindForeign(vagen.Keys(), key); f != nil {
		return Setting{Key: key, Kind: string(f.Kind), About: f.About}, true
	}
	return Setting{}, false
}
