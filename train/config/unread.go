package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"vagen/advantage"
	"vagen/internal/settings"
	"vagen/policy/loss"
	"vagen/train/config/internal/vagen"
)

// A setting is unread if it has no effect with the rest of the configuration: the
// estimator has no such hyperparameter, or the loss no such bound. A setting that the
// user wrote is then an error, unless its value equals that of the default or the
// preset. Settings of presets return to the default.

// unreadSettings lists the settings of a configuration without effect. Those that skip names may be missing: to find
// out who would read them costs most of the time.
func (c *Config) unreadSettings(r Registries, skip func(key string) bool) []settings.Unused {
	out := slices.Concat(c.unreadByEstimator(r, skip), c.unreadByLoss(r, skip))
	noted := false
	when := func(idle bool, by, why string, keys ...string) {
		for _, key := range keys {
			if idle {
				out = append(out, settings.Unused{Path: key, By: by, Why: why, Noted: noted})
			}
		}
	}
	optim := func(group string, o *OptimConfig) {
		when(o.WarmupSteps > 0, group+".lr_warmup_steps", fmt.Sprintf("is %d, which overrides it", o.WarmupSteps), group+".lr_warmup_steps_ratio")
	}
	if spec, err := r.Estimators.Describe(c.Algorithm.Estimator); err == nil {
		const keys, weights = "algorithm.gdpo_reward_keys", "algorithm.gdpo_reward_weights"
		when(!spec.Components, "algorithm.adv_estimator", spec.Name+" does not read it; gdpo and gdpo_trl do", keys, weights)
		by, why := c.unreadAdvantages()
		when(spec.Components && by != "", by, why, keys, weights)
	}
	actor := &c.Agent.Actor
	c.unreadSchedules(r, when)
	optim("actor_rollout_ref.actor.optim", &actor.Optim)
	optim("critic.optim", &c.Critic.Optim)
	when(c.Agent.Rollout.Thinking == 0 && len(c.Data.TrainFiles) == 0, "actor_rollout_ref.rollout.thinking_token_budget", "sets no limit",
		"actor_rollout_ref.rollout.thinking_open", "actor_rollout_ref.rollout.thinking_close")
	when(!c.UsesReference(), "actor_rollout_ref.actor.policy_loss.loss_mode", "is "+actor.Loss.Mode+", and nothing else "+
		"learns from a teacher: set it to ref_kl, opd or sdft, or set algorithm.distillation.kl_penalty_coef",
		"algorithm.self_distillation.teacher")
	when(c.Run.Queue != "" && c.Run.Queue != QueueEmbedded, "run.queue", "is the URL of a server", "run.queue_options.listen",
		"run.queue_options.sync")

	c.unreadAlarms(r, when)

	noted = true
	c.unreadNoted(r, when)
	if s := &c.SFT; c.Trainer.Stage != StageRL {
		when(s.TestFreq <= 0, "sft.test_freq", fmt.Sprintf("is %d: nothing is validated", s.TestFreq), "sft.val_files")
		optim("sft.optim", &s.Optim)
	}
	return append(out, settings.Idle(c)...)
}

// unreadAlarms lists limits of metrics that are not measured.
func (c *Config) unreadAlarms(r Registries, when func(idle bool, by, why string, keys ...string)) {
	alarms := &c.Stability.Alarms
	when(alarms.MaxEqual != nil && c.Rollout.Trajectories == 1, "rollout_manager.n_trajectory", "is 1",
		"stability.alarms.max_equal_groups")
	measured, err := r.MetricNames(c)
	for _, a := range alarms.Thresholds() {
		metric := map[string]string{"reward_variance/zero_share": "reward_variance", "template/repeated": "template_collapse",
			"trend/response_length": "response_length"}[a.Metric]
		when(err == nil && a.Limit != nil && metric != "" && !slices.Contains(measured, metric), "trainer.metrics",
			"has no "+metric, "stability.alarms."+a.Key)
	}
}

// unreadNoted lists settings that files of VAGEN and presets have also where they have no effect, and those that only
// vagen eval reads then.
func (c *Config) unreadNoted(r Registries, when func(idle bool, by, why string, keys ...string)) {
	actor, critic, model, data := &c.Agent.Actor, &c.Critic, &c.Model, &c.Data
	if spec, err := r.Estimators.Describe(c.Algorithm.Estimator); err == nil {
		when(spec.Mask != advantage.MaskGAE, "algorithm.adv_estimator", spec.Name+" does not read it; masked_gae does",
			"rollout_manager.use_gae_mask")
	}
	dynamic := actor.Dynamic
	if critic.Dynamic != nil {
		dynamic = *critic.Dynamic
	}
	when(dynamic && critic.Kind == "separate", "critic.use_dynamic_bsz", "is true", "critic.ppo_micro_batch_size_per_gpu")
	when(!dynamic && critic.Kind == "separate", "critic.use_dynamic_bsz", "is false", "critic.ppo_max_token_len_per_gpu")
	when(model.Devices == 1 && model.Nodes == 1, "model.devices", "is 1", "model.part_per_device")
	when(c.stateReward().Enabled(), "env.config.state_reward", "has its own", "reward.credit_site", "reward.aggregation")
	when(len(data.TrainFiles) == 0 && len(data.ValFiles) == 0, "data.train_files", "is empty, and so is data.val_files",
		"data.base_seed")
	when(!c.UsesReference(), "actor_rollout_ref.actor.use_kl_loss", "is false, so that there is no reference policy",
		"actor_rollout_ref.ref.fsdp_config.param_offload", "actor_rollout_ref.ref.model.path",
		"actor_rollout_ref.ref.engine.addresses")
	when(c.ServesReference(), "actor_rollout_ref.ref.engine.addresses",
		"has servers, so that there is no reference policy in this process",
		"actor_rollout_ref.ref.fsdp_config.param_offload")
	when(c.TeachesItself(), "algorithm.self_distillation.teacher", "is set, so that there is no other reference policy",
		"actor_rollout_ref.ref.fsdp_config.param_offload")
	when(c.Trainer.RolloutDir == nil && c.Trainer.ValDir == nil, "trainer.rollout_data_dir",
		"is null, and so is trainer.validation_data_dir", "trainer.log_image.max_pending")
	when(!c.Trainer.Logs(LogPrometheus), "trainer.logger", "has no prometheus", "trainer.prometheus_address")
}

// unreadSchedules lists the schedules of what the run does not have.
func (c *Config) unreadSchedules(r Registries, when func(idle bool, by, why string, keys ...string)) {
	actor := &c.Agent.Actor
	const clip, kl = "stability.clip_schedule", "stability.kl_schedule"
	when(!actor.UseKLLoss && !c.Algorithm.KLInReward, "actor_rollout_ref.actor.use_kl_loss",
		"is false, and so is algorithm.use_kl_in_reward", kl+".style", kl+".end_ratio")
	if r.readsClip(actor) {
		return
	}
	by, why := "actor_rollout_ref.actor.policy_loss.loss_mode", actor.Loss.Mode+" has no clip range"
	for _, s := range actor.Loss.switches() {
		other := *actor
		if settings.Set(&other, s.key, s.instead) == nil && r.readsClip(&other) {
			by, why = "actor_rollout_ref.actor."+s.key, s.why
			break
		}
	}
	when(true, by, why, clip+".style", clip+".end_ratio")
}

// readsClip reports whether the policy loss depends on the clip range. One that cannot be made has another error.
func (r Registries) readsClip(a *ActorConfig) bool {
	full, _ := r.policyLoss(a, 1, 1)
	half, err := r.policyLoss(a, 0.5, 1)
	return err != nil || !reflect.DeepEqual(full, half)
}

// unreadAdvantages is the setting with which nothing reads the estimator's advantages, and how; "" if something does.
func (c *Config) unreadAdvantages() (by, why string) {
	switch {
	case c.readsAdvantages():
		return "", ""
	case c.Agent.Actor.Loss.alone():
		return "actor_rollout_ref.actor.policy_loss.loss_mode", "is " + c.Agent.Actor.Loss.Mode + ", which reads no advantages"
	}
	return "algorithm.distillation.use_task_rewards", "is false, so that nothing reads the estimator's advantages"
}

// unreadByEstimator lists the hyperparameters that the estimator does not have, or that have no effect beside others.
func (c *Config) unreadByEstimator(r Registries, skip func(key string) bool) []settings.Unused {
	name := c.Algorithm.Estimator
	spec, err := r.Estimators.Describe(name)
	if err != nil {
		return nil
	}
	var out []settings.Unused
	noneBy, noneWhy := c.unreadAdvantages()
	keys := settings.Keys(&c.Algorithm.Params)
	for _, h := range keys {
		u := settings.Unused{Path: "algorithm." + h.Path, By: "algorithm.adv_estimator"}
		switch {
		case skip(u.Path):
			continue
		case noneBy != "":
			u.By, u.Why = noneBy, noneWhy
			out = append(out, u)
			continue
		case spec.Undiscounted && h.Path == "gamma":
			continue
		case spec.Reads(h.Path):
			if by := spec.Idle(h.Path, c.Algorithm.Params); by != "" {
				i := slices.IndexFunc(keys, func(k settings.Key) bool { return k.Path == by })
				u.By, u.Why = "algorithm."+by, "is "+settings.Text(keys[i].Value)
				out = append(out, u)
			}
			continue
		}
		var readers []string
		for _, other := range r.Estimators.Names() {
			if spec, err := r.Estimators.Describe(other); err == nil && spec.Reads(h.Path) {
				readers = append(readers, other)
			}
		}
		u.Why = fmt.Sprintf("%s does not read it; these do: %s", name, strings.Join(readers, ", "))
		if ofNext(u.Path) {
			u.Why += " (bi_level_gae of system: next)"
		}
		u.Noted = vagen.Given(u.Path, name)
		out = append(out, u)
	}
	return out
}

// unreadByLoss lists the settings that only other policy losses have.
func (c *Config) unreadByLoss(r Registries, skip func(key string) bool) []settings.Unused {
	const actor = "actor_rollout_ref.actor."
	mode, published := c.Agent.Actor.Loss.Mode, Default().Agent.Actor
	published.Loss.DistillKL = loss.ForwardTopK // which reads all settings of its loss
	published.Loss.DistillCoef = c.Agent.Actor.Loss.DistillCoef
	var out []settings.Unused
	if _, err := r.Losses.New(mode, published.lossOptions()); err != nil { // reported elsewhere
		return nil
	}
	chosen, given := published, &c.Agent.Actor.Loss
	chosen.Loss.DistillKL, chosen.Loss.SDFTMode, chosen.Loss.DistillPG = given.DistillKL, given.SDFTMode, given.DistillPG
	chosen.Loss.DistillLow, chosen.Loss.DistillHigh = given.DistillLow, given.DistillHigh
	chosen.ClipLow, chosen.ClipHigh = c.Agent.Actor.ClipLow, c.Agent.Actor.ClipHigh
	if chosen.Loss.SDFTMode == "sampled_token" {
		chosen.Loss.SDFTAlpha = 1 // no other is allowed
	}
	// reads reports whether a loss is another one with another value of a setting.
	reads := func(name string, of ActorConfig, k settings.Key) bool {
		with := of
		unset := settings.Set(&with, k.Path, other(k.Value))
		was, err := r.Losses.New(name, of.lossOptions())
		is, failed := r.Losses.New(name, with.lossOptions())
		return unset == nil && err == nil && (failed != nil || !reflect.DeepEqual(was, is))
	}
	keys := settings.Keys(&chosen)
	for i, k := range settings.Keys(&published) {
		a := published
		if altered := other(k.Value); altered == nil || skip(actor+k.Path) || settings.Set(&a, k.Path, altered) != nil ||
			reflect.DeepEqual(a.lossOptions(), published.lossOptions()) {
			continue // not a number of a loss
		}
		u := settings.Unused{Path: actor + k.Path, By: actor + "policy_loss.loss_mode"}
		if !reads(mode, published, k) {
			names := slices.DeleteFunc(r.Losses.Names(), func(name string) bool { return !reads(name, published, k) })
			u.Why = fmt.Sprintf("%s does not read it; these do: %s", mode, strings.Join(names, ", "))
			out = append(out, u)
		} else if _, err := r.Losses.New(mode, chosen.lossOptions()); err == nil && !reads(mode, chosen, keys[i]) {
			u.Why = mode + " does not read it with its other settings"
			for _, s := range given.switches() {
				x := chosen
				if settings.Set(&x, s.key, s.instead) == nil && reads(mode, x, keys[i]) {
					u.By, u.Why = actor+s.key, s.why
					break
				}
			}
			out = append(out, u)
		}
	}
	return out
}

// lossSwitch is a setting of a loss with which others have no effect, why, and the value with which they have one.
type lossSwitch struct {
	key, why string
	instead  any
}

// switches lists the settings with which others of a loss have no effect.
func (l *PolicyLossConfig) switches() []lossSwitch {
	return []lossSwitch{
		{"policy_loss.distillation_loss_mode", l.DistillKL + " does not read it", loss.ForwardTopK},
		{"policy_loss.distillation_mode", l.SDFTMode + " does not read it", "topk_logits"},
		{"policy_loss.use_policy_gradient", "is false", true},
		{"policy_loss.distillation_clip_ratio_low", "takes its place", nil},
		{"policy_loss.distillation_clip_ratio_high", "takes its place", nil},
		{"clip_ratio_low", "takes its place", nil},
	}
}

// other is another value of a setting that is a number or a switch; nil for other settings.
func other(value any) any {
	switch x := value.(type) {
	case bool:
		return !x
	case float64:
		if x == 0 {
			return 2
		}
		return x / 2
	case int:
		return x + 1
	case *float64:
		if x != nil && *x == 0.05 {
			return 0.1
		}
		return 0.05
	case string:
		return "binary_kl"
	}
	return nil
}
