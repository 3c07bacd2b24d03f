package vagen

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"vagen/advantage"
	"vagen/internal/presets"
	"vagen/internal/settings"
)

// Note tells of a key of VAGEN that a configuration gives and that sets nothing
// here, and what does its job.
type Note struct {
	Keys  []string // that the same is to be said about
	About string
}

// String is the note on one line.
func (n Note) String() string { return strings.Join(n.Keys, ", ") + ": " + n.About }

// LoadConfig reads a YAML file on top of the defaults and applies key=value
// overrides. It reports all mistakes at once, contradictions included, with the
// line of the file or the number of the override. path may be "". What is accepted
// without effect is in the configuration's Notes.
func LoadConfig(path string, overrides ...string) (Config, error) {
	return Registries{}.LoadConfig(path, overrides...)
}

// LoadConfig is the function LoadConfig with these names.
func (r Registries) LoadConfig(path string, overrides ...string) (Config, error) {
	return r.Load(Source{Path: path, Overrides: overrides})
}

// Source says what a configuration is read from, each part on top of those before
// it: the defaults, a preset, a YAML file, overrides of the form key=value.
type Source struct {
	Preset    string // "" for none
	Path      string // "" for none
	Overrides []string
	// Unchecked leaves out what Validate checks: the result may be incomplete.
	Unchecked bool
}

// Name is what the source is called: its file, else its preset.
func (s Source) Name() string {
	switch {
	case s.Path != "":
		return s.Path
	case s.Preset != "":
		return "preset " + s.Preset
	}
	return "this"
}

// Load reads a configuration as LoadConfig does.
func (s Source) Load() (Config, error) { return Registries{}.Load(s) }

// Load is Source.Load with these names.
func (r Registries) Load(s Source) (Config, error) {
	c := Default()
	l := settings.NewLoader(&c, foreignKeys)
	if s.Preset != "" {
		layers, err := presets.Layers(s.Preset)
		if err != nil {
			return c, fmt.Errorf("vagen: %w: %w", ErrConfig, err)
		}
		for _, p := range layers {
			l.YAML("preset "+p.Name, p.YAML)
		}
	}
	if s.Path != "" {
		raw, err := os.ReadFile(s.Path)
		if err != nil {
			return c, fmt.Errorf("vagen: %w: %w", ErrConfig, err)
		}
		l.YAML(s.Path, raw)
	}
	l.Overrides(s.Overrides)
	notes, given, problems := l.Finish()
	c.Notes = gather(notes)
	if _, told := given["trainer.total_training_steps"]; !told && len(c.Data.TrainFiles) > 0 {
		c.Trainer.Steps = stepsOfEpochs
	}
	c.settle()
	c.Notes = append(c.Notes, c.idle(given)...)
	if !s.Unchecked {
		for _, err := range c.problems(r.full()) {
			problems = append(problems, located(err, given))
		}
	}
	if len(problems) > 0 {
		return c, fmt.Errorf("vagen: %w: %w", ErrConfig, errors.Join(problems...))
	}
	return c, nil
}

// idle tells of settings that were given and that others leave without effect.
func (c *Config) idle(given map[string]settings.Given) []Note {
	var out []Note
	// Whoever gives the other key as well has thought of it.
	say := func(useless bool, key, other, about string) {
		_, told := given[key]
		if _, aware := given[other]; told && !aware && useless {
			out = append(out, Note{Keys: []string{key}, About: about})
		}
	}
	say(c.Algorithm.KLCtrl.Coef != 0 && !c.Algorithm.KLInReward, "algorithm.kl_ctrl.kl_coef", "algorithm.use_kl_in_reward",
		"algorithm.use_kl_in_reward is false, so that rewards are not charged; the full VAGEN system charges them whenever use_kl_loss is false")
	say(c.Agent.Actor.KLLoss != 0 && !c.Agent.Actor.UseKLLoss, "actor_rollout_ref.actor.kl_loss_coef", "actor_rollout_ref.actor.use_kl_loss",
		"actor_rollout_ref.actor.use_kl_loss is false")
	say(c.Hub.Repo != "" && c.Hub.Freq == nil, "huggingface_hub.repo_id", "huggingface_hub.hf_save_freq",
		"huggingface_hub.hf_save_freq is null, so that nothing is exported and uploaded")
	say(c.Trainer.LogImage.Enable && c.Trainer.RolloutDir == nil && c.Trainer.ValDir == nil, "trainer.log_image.enable", "",
		"neither trainer.rollout_data_dir nor trainer.validation_data_dir is set, so that no pictures are stored")
	spec, err := advantage.DefaultRegistry().Describe(c.Algorithm.Estimator)
	say(err == nil && !spec.Critic && c.Critic.Kind != "none", "algorithm.adv_estimator", "critic.kind",
		"it needs no critic, but critic.kind is "+c.Critic.Kind+": the critic is asked and never trained; set critic.enable to false")
	return out
}

// PresetInfo describes a named configuration.
type PresetInfo struct {
	Name  string   `json:"name"`
	About string   `json:"about"`
	Also  []string `json:"also,omitempty"` // further names
}

// Presets lists the configurations that Source.Preset and --preset know by name.
func Presets() []PresetInfo {
	var out []PresetInfo
	for _, p := range presets.All() {
		out = append(out, PresetInfo{Name: p.Name, About: p.About, Also: p.Also})
	}
	return out
}

// gather puts the keys of equal notes together.
func gather(notes []settings.Note) []Note {
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

// located adds to an error about settings where those were given that it names.
func located(err error, given map[string]settings.Given) error {
	var places []string
	words := strings.FieldsFunc(err.Error(), func(r rune) bool {
		return r != '.' && r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	for _, w := range words {
		g, ok := given[strings.Trim(w, ".")]
		if ok && g.Where != "" && !slices.Contains(places, g.Where) {
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
	l := settings.NewLoader(c, foreignKeys)
	l.Overrides([]string{assignment})
	notes, _, problems := l.Finish()
	if len(problems) > 0 {
		return fmt.Errorf("vagen: %w: %w", ErrConfig, errors.Join(problems...))
	}
	c.Notes = append(slices.Clip(c.Notes), gather(notes)...)
	c.settle()
	return nil
}

// YAML writes the configuration with every key.
func (c *Config) YAML() ([]byte, error) { return settings.Marshal(c) }

// Setting describes a key of configurations.
type Setting struct {
	Key     string
	Kind    string // "setting"; of keys of other systems "noted", "refused" or "alias"
	About   string
	Unit    string // of numbers; "" without one
	Default any    // of settings; nil is null
}

// Settings lists the keys of configurations: those that set something, in their
// order, then those of other systems that are known, in alphabetic order. A part *
// of such a key stands for any part, at its end for all that follows.
func Settings() []Setting {
	c := Default()
	var out []Setting
	for _, k := range settings.Keys(&c) {
		out = append(out, Setting{Key: k.Path, Kind: "setting", About: k.Doc, Unit: k.Unit, Default: k.Value})
	}
	others := map[string]Setting{}
	for _, f := range foreignKeys {
		if _, ok := others[f.Key]; !ok {
			others[f.Key] = Setting{Key: f.Key, Kind: string(f.Kind), About: f.About}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(others)) {
		out = append(out, others[key])
	}
	return out
}

// Explain describes one key, also one of another system that an entry with * covers.
func Explain(key string) (Setting, bool) {
	for _, s := range Settings() {
		if s.Key == key && s.Kind == "setting" {
			return s, true
		}
	}
	if f := settings.FindForeign(foreignKeys, key); f != nil {
		return Setting{Key: key, Kind: string(f.Kind), About: f.About}, true
	}
	return Setting{}, false
}
