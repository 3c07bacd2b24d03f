package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"vagen/internal/settings"
	"vagen/train/config/internal/vagen"
)

// estimatorName returns this library's name of the estimator that
// algorithm.adv_estimator means in system.
func (c *Config) estimatorName() string { return vagen.Estimator(c.System, c.Algorithm.Estimator) }

// generation warns if a source has keys of one generation of VAGEN, does not
// set system, and would train differently with that generation's defaults.
func (s Source) generation(in *loaded) error {
	if _, given := in.given["system"]; given {
		return nil
	}
	system, keys := vagen.Marked(in.written())
	if system == "" {
		return nil
	}
	other, err := s.read(system)
	if err != nil {
		return err
	}
	var differ []string
	ours, theirs := settings.Keys(&in.config), settings.Keys(&other.config)
	for i, k := range ours {
		if k.Path != "system" && !reflect.DeepEqual(k.Value, theirs[i].Value) {
			here, there := settings.Text(k.Value), settings.Text(theirs[i].Value)
			differ = append(differ, fmt.Sprintf("%s is %s (%s: %s)", k.Path, here, system, there))
		}
	}
	if len(differ) == 0 {
		return nil
	}
	in.config.Notes = append(in.config.Notes, Note{Keys: keys, Warn: true, About: fmt.Sprintf("such keys come from the %s generation of VAGEN, "+
		"but this library's defaults and names are used, which differ: %s; "+
		"set system: %s to use those of that generation, or system: null to use this library's",
		system, strings.Join(differ, ", "), system)})
	return nil
}

// written lists the keys that the user gave a value, by the names that were written, in alphabetical order.
func (in *loaded) written() []string {
	var keys []string
	for _, g := range in.given {
		if !g.Base && g.Value != nil && g.Value != "" {
			keys = append(keys, g.Name)
		}
	}
	for _, n := range in.notes {
		keys = append(keys, n.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// ofNext reports whether only configurations of VAGEN next have a key.
func ofNext(key string) bool {
	system, _ := vagen.Marked([]string{key})
	return system == "next"
}

// withoutCritic sets critic.kind to none, as every generation does, if nothing needs a critic
// and neither critic.kind nor its alias was given. A file with every key,
// at path, says what was decided before.
func (in *loaded) withoutCritic(r Registries, path string) {
	c := &in.config
	spec, err := r.Estimators.Describe(c.Algorithm.Estimator)
	if err != nil || spec.Critic && c.UsesEstimator() || c.System == "" {
		return
	}
	if g, given := in.given["critic.kind"]; !given || g.Base && (path == "" || !strings.HasPrefix(g.Where, path+": ")) {
		c.Critic.Kind = "none"
	}
}

// Compared is a setting with its defaults in this library and in each generation of VAGEN.
type Compared struct {
	Key     string         `json:"key"`
	Value   any            `json:"value"`
	Default any            `json:"default"`           // of this library
	Systems map[string]any `json:"systems,omitempty"` // the generations' defaults, where they are others
	From    string         `json:"from,omitempty"`    // a preset, a line or an override; "" for a default
}

// Compare lists the settings of a source that differ from this library's defaults, and those
// whose defaults differ between the generations of VAGEN. Secrets are redacted. The source is
// not checked.
func (s Source) Compare() ([]Compared, error) {
	s.Unchecked = true
	in, err := s.load(Registries{}.WithBuiltins())
	if err != nil {
		return nil, err
	}
	published := Default()
	ours := SafeKeys(&published)
	theirs := map[string][]settings.Key{}
	for _, system := range vagen.Generations() {
		g := Default()
		under := baseSources{system: system, played: in.config.Env.Name}
		under.loader(&g).Finish()
		g.Algorithm.Estimator = g.estimatorName()
		theirs[system] = SafeKeys(&g)
	}
	var out []Compared
	for i, k := range SafeKeys(&in.config) {
		d := Compared{Key: k.Path, Value: k.Value, Default: ours[i].Value, From: in.given[k.Path].Where}
		d.Systems = map[string]any{}
		for system, keys := range theirs {
			if value := keys[i].Value; k.Path != "system" && !reflect.DeepEqual(value, d.Default) {
				d.Systems[system] = value
			}
		}
		if len(d.Systems) > 0 || !reflect.DeepEqual(d.Value, d.Default) {
			out = append(out, d)
		}
	}
	return out, nil
}

// otherSystem warns if the preset belongs to another generation than the one
// whose defaults a file or an override selects.
func (s Source) otherSystem(in *loaded) error {
	c := &in.config
	if s.Preset == "" || strings.HasPrefix(in.given["system"].Where, "preset ") {
		return nil
	}
	own, err := Source{Preset: s.Preset}.read("")
	if err != nil || own.config.System == c.System {
		return err
	}
	var keys []string
	for _, d := range vagen.Defaults() {
		if g, given := own.given[d.Key]; !given || strings.HasPrefix(g.Where, "system ") {
			keys = append(keys, d.Key)
		}
	}
	follows := c.System
	if follows == "" {
		follows = "this library"
	}
	about := fmt.Sprintf("the preset %s belongs to %s; what it does not set follows %s: %s",
		s.Preset, own.config.System, follows, strings.Join(keys, ", "))
	c.warn(true, "system", about)
	return nil
}
