package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"vagen/internal/settings"
)

// The values of system.
const (
	systemLegacy = "legacy"
	systemLite   = "lite"
	systemNext   = "next"
)

var systems = []string{systemLegacy, systemLite, systemNext}

// generationDefaults are the keys whose defaults differ between the generations of VAGEN, or
// between one of them and this library: values as YAML, "" for this library's default. The
// sources are vagen/trainer/config/ppo_trainer.yaml of branch vagen-legacy and the code
// that reads it; verl's ppo_trainer.yaml with vagen/configs/vagen_multiturn.yaml of branch
// main; and VAGEN next, which changes the estimator and its discounts alone.
var generationDefaults = []struct{ key, legacy, lite, next string }{
	{"algorithm.adv_estimator", "gae", "gae", "default_gae"},
	{"algorithm.high_level_gamma", "0.99", "", "0.95"},       // gamma_turn of next; Lite has no such key
	{"algorithm.use_kl_in_reward", "true", "false", "false"}, // legacy: whenever use_kl_loss is false
	{"algorithm.kl_mask", "attention", "", ""},
	{"algorithm.kl_ctrl.kl_coef", "0.001", "0.001", "0.001"},
	{"algorithm.kl_ctrl.target_kl", "", "0.1", "0.1"},
	{"algorithm.kl_ctrl.horizon", "", "10000", "10000"},
	{"data.train_batch_size", "1024", "128", "128"},
	{"data.max_prompt_length", "512", "9000", "9000"},
	{"data.max_response_length", "512", "8000", "8000"}, // a turn's in legacy, a conversation's in the others
	{"rollout_manager.max_turns", "5", "", ""},          // files of the others give it
	{"rollout_manager.window_size", "5", "", ""},
	{"rollout_manager.max_trajectory_length", "3072", "", ""},
	{"actor_rollout_ref.actor.shuffle", "false", "false", "false"},
	{"actor_rollout_ref.actor.clip_ratio_c", "0.0", "3.0", "3.0"},
	{"actor_rollout_ref.actor.entropy_coeff", "0.001", "0.0", "0.0"},
	{"actor_rollout_ref.actor.grad_norm_threshold", "1000", "0", "0"},
	{"actor_rollout_ref.actor.policy_loss.clamp_log_ratio", "false", "true", "true"},
	// Validation samples as training does in legacy; the others decode greedily.
	{"actor_rollout_ref.rollout.val_kwargs.temperature", `"${actor_rollout_ref.rollout.temperature}"`, "0.0", "0.0"},
	{"actor_rollout_ref.rollout.val_kwargs.top_p", `"${actor_rollout_ref.rollout.top_p}"`, "", ""},
	{"actor_rollout_ref.rollout.val_kwargs.top_k", `"${actor_rollout_ref.rollout.top_k}"`, "", ""},
}

// estimatorNames are the names of estimators that have another meaning in a generation,
// with their names in this library.
var estimatorNames = []struct{ system, name, here string }{
	{systemLite, "gae", "lite_gae"},
	{systemLite, "grpo", "lite_grpo"},
	{systemNext, "gae", "lite_gae"},
	{systemNext, "grpo", "lite_grpo"},
	{systemNext, "bi_level_gae", "trajectory_bi_level_gae"},
}

// ruledEnvironments are the environments whose rules differ between generations. Those of
// Lite are this library's default.
var ruledEnvironments = []string{"frozenlake", "navigation", "primitive_skill", "sokoban"}

// generationDocument writes the defaults of a generation as YAML; nil for other values of
// system. environment is the one that is played, "" if data files name them.
func generationDocument(system, environment string) []byte {
	if !slices.Contains(systems, system) {
		return nil
	}
	var b strings.Builder
	for _, d := range generationDefaults {
		if value := []string{d.legacy, d.lite, d.next}[slices.Index(systems, system)]; value != "" {
			fmt.Fprintf(&b, "%s: %s\n", d.key, value)
		}
	}
	for _, name := range ruledEnvironments {
		switch {
		case system == systemLite:
		case environment == name:
			fmt.Fprintf(&b, "env.config.rules: %s\n", system)
		case environment == "":
			fmt.Fprintf(&b, "env.defaults.%s: {rules: %s}\n", name, system)
		}
	}
	return []byte(b.String())
}

// Compared is a setting with its defaults in this library and in each generation of VAGEN.
type Compared struct {
	Key     string         `json:"key"`
	Value   any            `json:"value"`
	Default any            `json:"default"`           // of this library
	Systems map[string]any `json:"systems,omitempty"` // the generations' defaults, where they are others
	From    string         `json:"from,omitempty"`    // what gave the value: a preset, a line, an override; "" for a default
}

// Compare lists the settings of a source that differ from this library's defaults, and those
// whose defaults differ between the generations of VAGEN. Secrets are redacted. The source is
// not checked.
func (s Source) Compare() ([]Compared, error) {
	s.Unchecked = true
	in, err := s.read("")
	if err != nil {
		return nil, fmt.Errorf("config: %w: %w", ErrConfig, err)
	}
	c, err := s.Load()
	if err != nil {
		return nil, err
	}
	published := Default()
	ours := SafeKeys(&published)
	theirs := map[string][]settings.Key{}
	for _, system := range systems {
		g := Default()
		l := settings.NewLoader(&g, foreignKeys)
		l.Base("system "+system, generationDocument(system, c.Env.Name))
		l.Finish()
		g.System = system
		g.Algorithm.Estimator = g.estimatorName()
		theirs[system] = SafeKeys(&g)
	}
	var out []Compared
	for i, k := range SafeKeys(&c) {
		d := Compared{Key: k.Path, Value: k.Value, Default: ours[i].Value, Systems: map[string]any{}}
		if g, ok := in.given[k.Path]; ok {
			d.From = g.Where
		}
		for _, system := range systems {
			if value := theirs[system][i].Value; k.Path != "system" && !reflect.DeepEqual(value, d.Default) {
				d.Systems[system] = value
			}
		}
		if len(d.Systems) > 0 || !reflect.DeepEqual(d.Value, d.Default) {
			out = append(out, d)
		}
	}
	return out, nil
}

// otherSystem returns a warning if the preset belongs to another generation than the one
// whose defaults a file or an override selects.
func (s Source) otherSystem(in *loaded) (*Note, error) {
	c := &in.config
	if s.Preset == "" || strings.HasPrefix(in.given["system"].Where, "preset ") {
		return nil, nil
	}
	own, err := Source{Preset: s.Preset}.read("")
	if err != nil || own.config.System == c.System {
		return nil, err
	}
	var keys []string
	for _, d := range generationDefaults {
		if g, given := own.given[d.key]; !given || strings.HasPrefix(g.Where, "system ") {
			keys = append(keys, d.key)
		}
	}
	return &Note{Keys: []string{"system"}, Warn: true, About: fmt.Sprintf("the preset %s belongs to %s; what it does not set follows %s: %s",
		s.Preset, own.config.System, orNull(c.System), strings.Join(keys, ", "))}, nil
}

func orNull(system string) string {
	if system == "" {
		return "this library"
	}
	return system
}
