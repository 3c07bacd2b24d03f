package config

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"vagen/internal/settings"
)

// estimatorName returns this library's name of the estimator that
// algorithm.adv_estimator means in system.
func (c *Config) estimatorName() string {
	for _, e := range estimatorNames {
		if e.system == c.System && e.name == c.Algorithm.Estimator {
			return e.here
		}
	}
	return c.Algorithm.Estimator
}

// generationKeys are keys that only configurations of one generation have, the newest
// generation first. A key ending in .* covers the keys below it. Keys that
// configurations of this library commonly set are not included.
var generationKeys = []struct {
	system string
	keys   []string
}{
	{systemNext, []string{"algorithm.gamma_turn", "algorithm.lambda_turn", "algorithm.lambda_token", "algorithm.bi_level_mix"}},
	{systemLite, []string{
		"trainer.concat_multi_turn", "trainer.skip_pad_tokens", "trainer.replace_image_tokens_for_logging", "data.return_multi_modal_inputs",
		"actor_rollout_ref.rollout.agent.*", "actor_rollout_ref.rollout.multi_turn.*", "actor_rollout_ref.rollout.mode", "env_registry.*",
	}},
	{systemLegacy, []string{
		"algorithm.high_level_gamma", "data.max_trajectory_length", "trainer.val_generations_to_log_to_wandb",
		"rollout_manager.window_size", "rollout_manager.use_multi_turn_reward", "rollout_manager.use_loss_mask", "rollout_manager.use_gae_mask",
		"rollout_manager.special_token_for_loss_mask", "rollout_manager.truncation", "rollout_manager.use_service", "rollout_manager.base_url",
		"rollout_manager.mini_batch_size", "rollout_manager.n_gpus_per_node",
	}},
}

// generation returns a warning if a source has keys of one generation of VAGEN, does not
// set system, and would train differently with that generation's defaults.
func (s Source) generation(in loaded) (*Note, error) {
	if _, given := in.given["system"]; given {
		return nil, nil
	}
	system, keys := in.marked()
	if system == "" {
		return nil, nil
	}
	other, err := s.read(system)
	if err != nil {
		return nil, err
	}
	var differ []string
	ours, theirs := settings.Keys(&in.config), settings.Keys(&other.config)
	for i, k := range ours {
		if k.Path != "system" && !reflect.DeepEqual(k.Value, theirs[i].Value) {
			differ = append(differ, fmt.Sprintf("%s is %s (%s: %s)", k.Path, valueText(k.Value), system, valueText(theirs[i].Value)))
		}
	}
	if len(differ) == 0 {
		return nil, nil
	}
	return &Note{Keys: keys, Warn: true, About: fmt.Sprintf("such keys come from the %s generation of VAGEN, but this library's defaults and names are used, which differ: %s; set system: %s to use those of that generation, or system: null to use this library's",
		system, strings.Join(differ, ", "), system)}, nil
}

// marked returns the newest generation of which the configuration has keys, and these keys.
func (in *loaded) marked() (system string, keys []string) {
	var written []string
	for _, g := range in.given {
		if !g.Base && g.Value != nil && g.Value != "" {
			written = append(written, g.Name)
		}
	}
	for _, n := range in.notes {
		written = append(written, n.Key)
	}
	slices.Sort(written)
	written = slices.Compact(written)
	for _, g := range generationKeys {
		for _, key := range written {
			if slices.ContainsFunc(g.keys, func(pattern string) bool { return settings.Covers(pattern, key) }) {
				keys = append(keys, key)
			}
		}
		if len(keys) > 0 {
			return g.system, keys
		}
	}
	return "", nil
}

// ofGeneration reports whether only configurations of a generation have a key.
func ofGeneration(system, key string) bool {
	for _, g := range generationKeys {
		if g.system == system {
			return slices.ContainsFunc(g.keys, func(pattern string) bool { return settings.Covers(pattern, key) })
		}
	}
	return false
}

// withoutCritic sets critic.kind to none, as every generation does, if the estimator
// needs no critic and neither critic.kind nor its alias was given. A file with every key,
// at path, says what was decided before.
func (in *loaded) withoutCritic(r Registries, path string) {
	c := &in.config
	spec, err := r.Estimators.Describe(c.Algorithm.Estimator)
	if err != nil || spec.Critic || c.System == "" {
		return
	}
	if g, given := in.given["critic.kind"]; !given || g.Base && (path == "" || !strings.HasPrefix(g.Where, path+": ")) {
		c.Critic.Kind = "none"
	}
}

// valueText returns a setting's value on one line.
func valueText(v any) string {
	text, err := settings.Text(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return text
}

// LogNotes logs the notes of a configuration, warnings at level warn.
func (c *Config) LogNotes(log *slog.Logger) {
	for _, n := range c.Notes {
		if n.Warn {
			log.Warn("configuration: "+n.About, "keys", n.Keys)
		} else {
			log.Info("configuration: keys of other systems without effect", "keys", n.Keys, "about", n.About)
		}
	}
}
