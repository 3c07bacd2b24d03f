package config

import (
	"fmt"
	"reflect"
	"strings"

	"vagen/advantage"
	"vagen/internal/settings"
)

// unreadError is an error about a setting without effect.
type unreadError struct {
	key string
	error
}

// unreadProblems are the errors about settings without effect, but for those that have
// another error.
func (in *loaded) unreadProblems(others []error) []error {
	said := map[string]bool{}
	for _, err := range others {
		for _, word := range keysIn(err) {
			said[word] = true
		}
	}
	var out []error
	for _, u := range in.unread {
		dot := strings.LastIndex(u.key, ".")
		if !said[u.key] && !said[u.key[:dot]] && !said[u.key[dot+1:]] {
			out = append(out, u.error)
		}
	}
	return out
}

// refuseUnread reports settings that somebody wrote and that have no effect, and
// returns those of presets to their defaults.
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
	_, settled := in.given["system"]
	var notes []settings.Note
	for _, u := range c.unreadSettings(r) {
		value := now[u.key]
		g, told := in.given[u.key]
		plain := reflect.DeepEqual(value, defaults[u.key])
		switch {
		case (!told || g.Base) && (plain || u.note):
			continue
		case !told || reflect.DeepEqual(value, base[u.key]) && g.Base: // a preset's
			if err := settings.Override(c, u.key+"="+valueText(defaults[u.key])); err != nil {
				in.problems = append(in.problems, err)
			}
			continue
		case g.Base: // a file with every key, which may come from elsewhere
			c.Notes = append(c.Notes, Note{Keys: []string{u.key}, About: u.about, Warn: true})
			continue
		}
		// A key of another generation asks for that one's estimator whatever its value.
		asks := !settled && ofGeneration(systemNext, g.Name) && valueText(value) != "null"
		if !asks && (plain || reflect.DeepEqual(value, base[u.key])) {
			continue
		}
		if u.note && g.Name == u.key {
			notes = append(notes, settings.Note{Key: u.key, Where: g.Where, About: u.about})
			continue
		}
		in.unread = append(in.unread, unreadError{u.key, fmt.Errorf("%s is %s, but %s", g.Name, valueText(value), u.about)})
	}
	return notes
}

// idle warns of settings that were given and that others leave without effect.
func (c *Config) idle(given map[string]settings.Given) []Note {
	var out []Note
	// Whoever gives the other key as well has thought of it.
	say := func(useless bool, key, other, about string) {
		g, told := given[key]
		if _, aware := given[other]; told && !g.Base && !aware && useless {
			out = append(out, Note{Keys: []string{key}, About: about, Warn: true})
		}
	}
	say(c.Algorithm.KLCtrl.Coef != 0 && !c.Algorithm.KLInReward, "algorithm.kl_ctrl.kl_coef", "algorithm.use_kl_in_reward",
		"algorithm.use_kl_in_reward is false, so that rewards are not charged; the full VAGEN system charges them whenever use_kl_loss is false, and so does system: legacy")
	say(c.Agent.Actor.KLLoss != 0 && !c.Agent.Actor.UseKLLoss, "actor_rollout_ref.actor.kl_loss_coef", "actor_rollout_ref.actor.use_kl_loss",
		"actor_rollout_ref.actor.use_kl_loss is false")
	say(!c.Agent.Actor.UseKLLoss && c.Agent.Actor.KLLossType != Default().Agent.Actor.KLLossType, "actor_rollout_ref.actor.kl_loss_type", "actor_rollout_ref.actor.use_kl_loss",
		"actor_rollout_ref.actor.use_kl_loss is false")
	name := c.Agent.Rollout.Name
	say(name != ownGeneration, "actor_rollout_ref.rollout.name", "",
		"generation runs in this process, with the model that is trained (xla): "+name+" is not started, and its own settings have no effect")
	say(c.Hub.Repo != "" && c.Hub.Freq == nil, "huggingface_hub.repo_id", "huggingface_hub.hf_save_freq",
		"huggingface_hub.hf_save_freq is null, so that nothing is exported and uploaded")
	say(c.Trainer.LogImage.Enable && c.Trainer.RolloutDir == nil && c.Trainer.ValDir == nil, "trainer.log_image.enable", "",
		"neither trainer.rollout_data_dir nor trainer.validation_data_dir is set, so that no pictures are stored")
	spec, err := advantage.DefaultRegistry().Describe(c.Algorithm.Estimator)
	say(err == nil && !spec.Critic && c.Critic.Kind != "none", "algorithm.adv_estimator", "critic.kind",
		"it needs no critic, but critic.kind is "+c.Critic.Kind+": the critic is asked and never trained; set critic.enable to false")
	return out
}
