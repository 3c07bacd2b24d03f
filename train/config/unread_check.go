package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"vagen/internal/field"
	"vagen/internal/settings"
)

// unreadProblems lists the errors about settings without effect, except for settings
// that have another error.
func (in *loaded) unreadProblems(others []error) []error {
	var reported []string
	for _, err := range others {
		reported = append(reported, field.Keys(err)...)
	}
	var out []error
	for _, err := range in.unread {
		key := err.Keys[0]
		section := key[:strings.LastIndex(key, ".")]
		if !slices.Contains(reported, key) && !slices.Contains(reported, section) {
			out = append(out, err)
		}
	}
	return out
}

// refuseUnread reports settings without effect that the user wrote, and resets those of
// presets to their defaults.
func (in *loaded) refuseUnread(r Registries) []settings.Note {
	c := &in.config
	published := Default()
	values := func(c *Config) map[string]any {
		out := map[string]any{}
		for _, k := range settings.Keys(c) {
			out[k.Path] = k.Value
		}
		return out
	}
	now, base, defaults := values(c), values(&in.base), values(&published)
	_, systemGiven := in.given["system"]
	how := func(key string) (g settings.Given, given, isDefault bool) {
		g, given = in.given[key]
		if _, isMap := now[key].(map[string]any); isMap && !given {
			g, given = in.part(key)
		}
		return g, given, reflect.DeepEqual(now[key], defaults[key])
	}
	skip := func(key string) bool {
		g, given, isDefault := how(key)
		return isDefault && (!given || g.Base)
	}
	var notes []settings.Note
	for _, u := range c.unreadSettings(r, skip) {
		value, about := now[u.Path], u.By+" "+u.Why
		g, given, isDefault := how(u.Path)
		switch {
		case skip(u.Path), (!given || g.Base) && u.Noted:
			continue
		case !given || reflect.DeepEqual(value, base[u.Path]) && g.Base: // from a preset
			if err := settings.Override(c, u.Path+"="+settings.Text(defaults[u.Path])); err != nil {
				in.problems = append(in.problems, err)
			}
			continue
		case g.Base: // from a file with every key, as runs write it
			c.warn(true, u.Path, about)
			continue
		}
		// A key of VAGEN next is meant for its estimator, whatever the value.
		foreign := !systemGiven && ofNext(g.Name) && settings.Text(value) != "null"
		if !foreign && (isDefault || reflect.DeepEqual(value, base[u.Path])) {
			continue
		}
		if u.Noted && !ofNext(g.Name) {
			notes = append(notes, settings.Note{Key: u.Path, Where: g.Where, About: about})
			continue
		}
		if value == nil { // what stands for null may be written otherwise
			value = g.Value
		}
		err := field.Errorf("%s is %s, but %s", g.Name, settings.Text(value), about)
		err.Keys = []string{u.Path, u.By}
		in.unread = append(in.unread, err)
	}
	return notes
}

// part returns the first entry of a mapping that was given alone, under the name of the mapping.
func (in *loaded) part(key string) (g settings.Given, ok bool) {
	for _, name := range slices.Sorted(maps.Keys(in.given)) {
		if g = in.given[name]; strings.HasPrefix(name, key+".") && !g.Base {
			g.Name = key
			return g, true
		}
	}
	return settings.Given{}, false
}

// idle warns of given settings that have no effect because of others.
func (c *Config) idle(r Registries, given map[string]settings.Given) {
	// There is no warning if the other key is given, too: the combination is intended.
	say := func(useless bool, key, other, about string) {
		g, set := given[key]
		_, otherSet := given[other]
		c.warn(set && !g.Base && !otherSet && useless, key, about)
	}
	say(c.Hub.Repo != "" && c.Hub.Freq == nil, "huggingface_hub.repo_id", "huggingface_hub.hf_save_freq",
		"huggingface_hub.hf_save_freq is null, so nothing is exported and uploaded")
	say(c.Trainer.LogImage.Enable && c.Trainer.RolloutDir == nil && c.Trainer.ValDir == nil, "trainer.log_image.enable",
		"",
		"neither trainer.rollout_data_dir nor trainer.validation_data_dir is set, so no images are stored")
	say(c.Trainer.Logs(LogWandB), "trainer.logger", "",
		"W&B is not contacted; metrics.jsonl has everything, and docs/results.md shows how to bring it into W&B")
	say(c.Trainer.GPUs > 0 && c.Model.Backend == "auto", "trainer.n_gpus_per_node", "model.backend",
		"model.backend is auto, which is the CPU: set it to cuda to train on GPUs")
	if c.Trainer.Stage == StageSFT { // which reads none of the others
		return
	}
	say(c.Algorithm.KLCtrl.Coef != 0 && !c.Algorithm.KLInReward, "algorithm.kl_ctrl.kl_coef", "algorithm.use_kl_in_reward",
		"algorithm.use_kl_in_reward is false, so there is no KL penalty in rewards; the full VAGEN system has one whenever use_kl_loss is false, and so does system: legacy")
	say(c.Agent.Actor.KLLoss != 0 && !c.Agent.Actor.UseKLLoss, "actor_rollout_ref.actor.kl_loss_coef",
		"actor_rollout_ref.actor.use_kl_loss",
		"actor_rollout_ref.actor.use_kl_loss is false")
	say(!c.Agent.Actor.UseKLLoss && c.Agent.Actor.KLLossType != Default().Agent.Actor.KLLossType,
		"actor_rollout_ref.actor.kl_loss_type", "actor_rollout_ref.actor.use_kl_loss",
		"actor_rollout_ref.actor.use_kl_loss is false")
	name := c.Agent.Rollout.Name
	say(name != ownGeneration && !c.UsesEngine(), "actor_rollout_ref.rollout.name", "", c.engineNote())
	say(!c.UsesEstimator(), "algorithm.adv_estimator", "",
		"nothing is learned from its advantages, but from a teacher alone: it need not be set")
	spec, err := r.Estimators.Describe(c.Algorithm.Estimator)
	say(err == nil && !spec.Critic && c.Critic.Kind != "none", "algorithm.adv_estimator", "critic.kind",
		"it needs no critic, but critic.kind is "+c.Critic.Kind+
			": values are computed, but the critic is never trained; set critic.enable to false")
}
