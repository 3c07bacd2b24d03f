package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"vagen/internal/settings"
)

// A setting is unread if it has no effect with the rest of the configuration: the
// estimator has no such hyperparameter, or the loss no such bound. A setting that the
// user wrote is then an error, unless its value equals that of the default or the
// preset. Settings of presets return to the default.

// unread is a setting without effect.
type unread struct {
	key  string
	by   string // the setting that makes it so
	why  string // the end of the sentence "by …"
	note bool   // accepted with a note, because the original's files have it
}

// about says why the setting has no effect, as the end of a sentence "is 1, but …".
func (u *unread) about() string { return u.by + " " + u.why }

// unreadSettings lists the settings of a configuration without effect.
func (c *Config) unreadSettings(r Registries) []unread {
	out := slices.Concat(c.unreadByEstimator(r), c.unreadByLoss(r), c.unreadBySFT())
	when := func(idle bool, by, why string, keys ...string) {
		for _, key := range keys {
			if idle {
				out = append(out, unread{key: key, by: by, why: why})
			}
		}
	}
	harness := c.Trainer.Harness
	when(slices.Contains([]string{"concat", "no_concat", "window"}, harness), "trainer.harness", harness+" does not read it; compact does", "trainer.compact_budget", "trainer.compact_summary_budget")
	when(harness == "no_concat" || harness == "compact", "trainer.harness", harness+" does not read it; window does", "rollout_manager.window_size")
	when(c.Reward.Normalize == "none", "reward.normalize", "is none", "reward.center", "reward.running", "reward.epsilon", "reward.limit")
	correction := &c.Algorithm.Correction
	when(correction.Level == nil, "algorithm.rollout_correction.rollout_is", "is null", "algorithm.rollout_correction.rollout_is_threshold", "algorithm.rollout_correction.rollout_is_batch_normalize")
	when(correction.Reject == nil, "algorithm.rollout_correction.rollout_rs", "is null", "algorithm.rollout_correction.rollout_rs_threshold")
	when(!c.Algorithm.KLInReward, "algorithm.use_kl_in_reward", "is false", "algorithm.kl_penalty", "algorithm.kl_mask", "algorithm.kl_ctrl.type")
	actor := &c.Agent.Actor
	positive := actor.ScaleFactor == nil || *actor.ScaleFactor > 0 // otherwise it has another error
	when(positive && actor.Aggregation != "seq-mean-token-sum-norm", "actor_rollout_ref.actor.loss_agg_mode", "is "+actor.Aggregation, "actor_rollout_ref.actor.loss_scale_factor")
	for _, o := range []struct {
		key string
		*OptimConfig
	}{{"actor_rollout_ref.actor.optim", &actor.Optim}, {"critic.optim", &c.Critic.Optim}} {
		when(o.Style == "constant", o.key+".warmup_style", "is constant", o.key+".min_lr_ratio")
		when(o.WarmupSteps > 0, o.key+".lr_warmup_steps", fmt.Sprintf("is %d, which overrides it", o.WarmupSteps), o.key+".lr_warmup_steps_ratio")
	}
	when(c.Agent.Rollout.Thinking == 0 && len(c.Data.TrainFiles) == 0, "actor_rollout_ref.rollout.thinking_token_budget", "is null",
		"actor_rollout_ref.rollout.thinking_open", "actor_rollout_ref.rollout.thinking_close")
	when(!c.UsesEngine(), engineKey+".addresses", "is empty", engineKeys()...)
	when(c.Run.Queue == "", "run.queue", "is null", queueKeys()...)
	when(c.Run.Queue != "" && c.Run.Queue != QueueEmbedded, "run.queue", "is the URL of a server", queueKey+".listen", queueKey+".sync")
	return append(out, c.unreadNotes()...)
}

// unreadNotes lists settings without effect that the original's files also have while
// the feature is disabled.
func (c *Config) unreadNotes() []unread {
	var out []unread
	when := func(idle bool, by, why string, keys ...string) {
		for _, key := range keys {
			if idle {
				out = append(out, unread{key: key, by: by, why: why, note: true})
			}
		}
	}
	when(c.Algorithm.KLCtrl.Type == "fixed", "algorithm.kl_ctrl.type", "is fixed", "algorithm.kl_ctrl.target_kl", "algorithm.kl_ctrl.horizon")
	when(!c.Filter.Enable, "filter.enable", "is false", "filter.name", "filter.filter_kwargs")
	when(!c.Rollout.UseService, "rollout_manager.use_service", "is false", "rollout_manager.base_url", "rollout_manager.timeout", "rollout_manager.max_workers")
	m := &c.Agent.Model
	when(m.LoRARank == 0, "actor_rollout_ref.model.lora_rank", "is 0", "actor_rollout_ref.model.lora_alpha", "actor_rollout_ref.model.target_modules")
	when(!c.Agent.Actor.UseKLLoss && !c.Algorithm.KLInReward, "actor_rollout_ref.actor.use_kl_loss", "is false, so that there is no reference policy", "actor_rollout_ref.ref.fsdp_config.param_offload")
	when(c.Critic.Kind == "shared", "critic.kind", "is shared, so that it has no weights and no optimiser of its own", "critic.model.fsdp_config.optimizer_offload", "critic.model.fsdp_config.param_offload")
	when(!c.Agent.Actor.Dynamic, "actor_rollout_ref.actor.use_dynamic_bsz", "is false", "actor_rollout_ref.actor.ppo_max_token_len_per_gpu")
	when(c.Run.Queue != "", "run.queue", "is set; the number of episodes at a time is that of vagen worker --workers", "run.workers")
	when(c.Trainer.ValSelect != "balanced", "trainer.val_log_select", "is "+c.Trainer.ValSelect, "trainer.val_log_success_ratio")
	when(!c.Trainer.Logs(LogPrometheus), "trainer.logger", "has no prometheus", "trainer.prometheus_address")
	when(len(c.Data.TrainFiles) > 0, "data.train_files", "give the start states", "env.train_seed")
	when(len(c.Data.ValFiles) > 0, "data.val_files", "give the start states", "env.val_seed")
	for _, k := range settings.Keys(c) {
		when(c.Critic.Kind == "none" && strings.HasPrefix(k.Path, "critic.") && k.Path != "critic.kind", "critic.kind", "is none", k.Path)
	}
	return out
}

// unreadByEstimator lists the hyperparameters that the estimator does not have.
func (c *Config) unreadByEstimator(r Registries) []unread {
	name := c.Algorithm.Estimator
	spec, err := r.Estimators.Describe(name)
	if err != nil {
		return nil
	}
	var out []unread
	for _, h := range settings.Keys(&c.Algorithm.Params) {
		if spec.Reads(h.Path) || spec.Undiscounted && h.Path == "gamma" {
			continue
		}
		var readers []string
		for _, other := range r.Estimators.Names() {
			if spec, err := r.Estimators.Describe(other); err == nil && spec.Reads(h.Path) {
				readers = append(readers, other)
			}
		}
		u := unread{key: "algorithm." + h.Path, by: "algorithm.adv_estimator"}
		u.why = fmt.Sprintf("%s does not read it; these do: %s", name, strings.Join(readers, ", "))
		if slices.Contains([]string{"lambda_turn", "lambda_token", "bi_level_mix"}, h.Path) {
			u.why += " (bi_level_gae of system: next)"
		}
		// The scripts of the full system set it for all of its estimators.
		u.note = h.Path == "high_level_gamma" && slices.Contains([]string{"gae", "masked_gae", "grpo", "masked_grpo"}, name)
		out = append(out, u)
	}
	return out
}

// lossSettings are the keys of policy losses, each with a function that changes its field.
var lossSettings = []struct {
	key    string
	change func(*ActorConfig)
}{
	{"clip_ratio", func(a *ActorConfig) { a.Clip /= 2 }},
	{"clip_ratio_low", func(a *ActorConfig) { a.ClipLow = half(a.ClipLow) }},
	{"clip_ratio_high", func(a *ActorConfig) { a.ClipHigh = half(a.ClipHigh) }},
	{"clip_ratio_c", func(a *ActorConfig) { a.ClipDual += 2 }},
	{"tau_pos", func(a *ActorConfig) { a.TauPos++ }},
	{"tau_neg", func(a *ActorConfig) { a.TauNeg++ }},
	{"policy_loss.clamp_log_ratio", func(a *ActorConfig) { a.Loss.ClampRatio = !a.Loss.ClampRatio }},
	{"policy_loss.clip_cov_ratio", func(a *ActorConfig) { a.Loss.ClipCovRatio /= 2 }},
	{"policy_loss.clip_cov_lb", func(a *ActorConfig) { a.Loss.ClipCovLow /= 2 }},
	{"policy_loss.clip_cov_ub", func(a *ActorConfig) { a.Loss.ClipCovHigh++ }},
	{"policy_loss.kl_cov_ratio", func(a *ActorConfig) { a.Loss.KLCovRatio /= 2 }},
	{"policy_loss.ppo_kl_coef", func(a *ActorConfig) { a.Loss.KLCovCoef /= 2 }},
}

func half(x *float64) *float64 {
	y := 0.05
	if x != nil {
		y = *x / 2
	}
	return &y
}

// unreadByLoss lists the settings that the policy loss does not have.
func (c *Config) unreadByLoss(r Registries) []unread {
	const actor = "actor_rollout_ref.actor."
	mode := c.Agent.Actor.Loss.Mode
	published := Default().Agent.Actor
	build := func(mode string, a ActorConfig) (any, error) {
		return r.Losses.New(mode, a.lossOptions())
	}
	reads := func(mode string, change func(*ActorConfig)) (bool, error) {
		was, err := build(mode, published)
		if err != nil {
			return false, err
		}
		a := published
		change(&a)
		is, err := build(mode, a)
		return err != nil || !reflect.DeepEqual(was, is), nil
	}
	var out []unread
	for _, s := range lossSettings {
		if read, err := reads(mode, s.change); read || err != nil { // an unknown loss is reported elsewhere
			continue
		}
		var others []string
		for _, other := range r.Losses.Names() {
			if read, err := reads(other, s.change); read && err == nil {
				others = append(others, other)
			}
		}
		out = append(out, unread{key: actor + s.key, by: actor + "policy_loss.loss_mode", why: fmt.Sprintf("%s does not read it; these do: %s", mode, strings.Join(others, ", "))})
	}
	return out
}
