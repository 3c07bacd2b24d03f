package train

import (
	"fmt"
	"slices"
	"strings"

	"vagen/internal/settings"
	"vagen/train/config"
)

// Every setting must be in one of the lists below, as TestEveryKeyHasAnOwner checks.

// trainerKeys are the settings that a Trainer honours itself. Two of them,
// skip_pad_tokens and replace_image_tokens_for_logging, have no effect;
// for actor_rollout_ref.rollout.name a note is given when a configuration is read.
var trainerKeys = slices.Concat(
	group("", "system"),
	group("run.", "seed workers waves async max_staleness partial_rollouts env_timeout episode_timeout patience retry"),
	group("env.", "name config defaults train_seed val_seed"),
	group("algorithm.", `adv_estimator gamma lam high_level_gamma lambda_turn lambda_token bi_level_mix
		step_advantage_w pass_k epsilon whiten norm_adv_by_std_in_grpo kl_penalty use_kl_in_reward kl_mask
		kl_ctrl.type kl_ctrl.kl_coef kl_ctrl.target_kl kl_ctrl.horizon`),
	group("algorithm.rollout_correction.", `rollout_is rollout_is_threshold rollout_is_batch_normalize rollout_rs
		rollout_rs_threshold bypass_mode`),
	group("reward.", "credit_site aggregation clip_low clip_high normalize center running epsilon limit"),
	group("filter.", "enable name filter_kwargs"),
	group("data.", `train_files val_files shuffle base_seed train_batch_size val_batch_size max_response_length
		response_length_per_turn truncation filter_overlong_prompts max_prompt_length gen_batch_size`),
	group("rollout_manager.", `max_turns n_trajectory use_multi_turn_reward use_loss_mask use_gae_mask window_size
		max_trajectory_length max_workers max_env_response_per_turn`),
	group("actor_rollout_ref.actor.", `shuffle ppo_mini_batch_size ppo_epochs grad_clip grad_norm_threshold clip_ratio
		clip_ratio_low clip_ratio_high clip_ratio_c tau_pos tau_neg loss_agg_mode loss_scale_factor entropy_coeff
		use_kl_loss kl_loss_coef kl_loss_type`),
	group("actor_rollout_ref.actor.optim.", optimizerKeys),
	group("actor_rollout_ref.actor.policy_loss.", `loss_mode clamp_log_ratio clip_cov_ratio clip_cov_lb clip_cov_ub
		kl_cov_ratio ppo_kl_coef`),
	group("actor_rollout_ref.rollout.", `name limit_mm_per_prompt temperature top_p top_k
		thinking_token_budget thinking_open thinking_close`),
	group("actor_rollout_ref.rollout.val_kwargs.", "n temperature top_p top_k"),
	group("critic.", `kind ppo_mini_batch_size ppo_epochs shuffle grad_clip grad_norm_threshold cliprange_value
		value_coef use_reward_mask`),
	group("critic.optim.", optimizerKeys),
	group("sft.", `train_files val_files val_fraction messages_key prompt_key response_key images_key episodes min_return
		turns max_length truncation train_batch_size shuffle loss_agg_mode grad_clip total_training_steps total_epochs
		test_freq save_freq`),
	group("sft.lessons.", "teacher episodes noise max_turns first_seed"),
	group("sft.optim.", optimizerKeys),
	group("trainer.", `stage total_training_steps total_epochs test_freq val_before_train critic_warmup max_skipped_updates
		metrics skip_pad_tokens replace_image_tokens_for_logging harness compact_budget
		compact_summary_budget best_actor_metric save_on_interrupt`),
	group("stability.spike.", "metric window deviations action max_rollbacks"),
	group("stability.early_stopping.", "metric patience min_delta"),
	group("stability.alarms.", `action patience min_entropy min_format max_truncated max_equal_groups max_kl max_ratio min_length max_grad_norm max_identical max_state_without_success max_unscored
		max_repeated`),
	group("stability.clip_schedule.", "style end_ratio"),
	group("stability.kl_schedule.", "style end_ratio"),
)

const optimizerKeys = `lr lr_warmup_steps lr_warmup_steps_ratio warmup_style min_lr_ratio beta1 beta2 weight_decay`

// checkpointKeys need a Trainer with a Checkpointer.
var checkpointKeys = group("trainer.", "save_freq save_best_actor")

// learnerKeys are settings for the code that creates the Learner.
var learnerKeys = slices.Concat(
	group("model.", "backend devices same_bytes num_nodes node_id coordinator node_address node_key_env node_tls_ca node_tls_cert node_tls_key node_timeout part_per_device shard_weights autotune autotune_sha256 bfloat16 recompute micro_tokens cache_tokens compile_cache tokens_per_call"),
	group("data.", "apply_chat_template_kwargs"),
	group("actor_rollout_ref.model.", "path lora_rank lora_alpha target_modules lora_adapter_path"),
	group("actor_rollout_ref.actor.", `ppo_micro_batch_size_per_gpu use_dynamic_bsz ppo_max_token_len_per_gpu
		freeze_vision_tower fsdp_config.optimizer_offload`),
	group("actor_rollout_ref.ref.", "fsdp_config.param_offload"),
	group("actor_rollout_ref.rollout.engine.", `addresses model api_key_env timeout sync_timeout attempts max_in_flight
		eject_after start_timeout outage_timeout mixed_versions sync_dir server_sync_dir check_responses check_limit`),
	group("trainer.", "n_gpus_per_node"),
	group("critic.", "model.path model.fsdp_config.optimizer_offload model.fsdp_config.param_offload ppo_micro_batch_size_per_gpu use_dynamic_bsz ppo_max_token_len_per_gpu zero_head"),
)

// runKeys are settings for the code that creates environments, sinks and folders.
var runKeys = slices.Concat(
	group("run.", "queue"),
	group("run.queue_options.", "name listen lease tries no_worker_timeout sync creds user key_env tls_ca tls_cert tls_key"),
	group("rollout_manager.", "use_service base_url timeout"),
	group("trainer.", `project_name experiment_name logger prometheus_address log_val_generations val_log_select
		val_log_success_ratio rollout_data_dir rollout_data_scores validation_data_dir log_image.enable log_image.max_pending
		log_image.png_compress_level log_image.disk_quota_mb resume_mode resume_from_path allow_config_change
		default_local_dir remove_previous_ckpt_in_save max_actor_ckpt_to_keep max_critic_ckpt_to_keep`),
	group("huggingface_hub.", "hf_save_freq upload_contents repo_id private"),
)

// group lists keys with a common prefix.
func group(prefix, names string) []string {
	keys := strings.Fields(names)
	for i, name := range keys {
		keys[i] = prefix + name
	}
	return keys
}

// OuterKeys lists the settings that a Trainer does not implement itself: those for the code
// that creates its Learner, Envs, Sinks and Checkpointer. Package train/run honours all of
// them. A Trainer refuses those that differ from their defaults, except those in Handled.
func OuterKeys() []string { return slices.Concat(checkpointKeys, learnerKeys, runKeys) }

// checkKeys refuses settings that would have no effect.
func (t *Trainer) checkKeys() error {
	outer := OuterKeys()
	for _, h := range t.Handled {
		if !slices.ContainsFunc(outer, func(key string) bool { return covers(h, key) }) {
			return fmt.Errorf("%w: Trainer.Handled: %q is neither a key of train.OuterKeys nor a group of them that ends in a dot", config.ErrConfig, h)
		}
	}
	defaults := config.Default()
	before := settings.Keys(&defaults)
	var unhandled []string
	for i, k := range settings.Keys(&t.Config) {
		if !slices.Contains(outer, k.Path) || config.ValueText(k.Value) == config.ValueText(before[i].Value) || t.handles(k.Path) {
			continue
		}
		unhandled = append(unhandled, k.Path)
	}
	if len(unhandled) == 0 {
		return nil
	}
	return fmt.Errorf("%w: a Trainer does not honour %s: use train/run.Open, or list them in Trainer.Handled if your program honours them", config.ErrConfig, strings.Join(unhandled, ", "))
}

// handles reports whether a key of OuterKeys is implemented.
func (t *Trainer) handles(key string) bool {
	if slices.Contains(checkpointKeys, key) && (t.Checkpointer != nil || key == "trainer.save_freq" && t.Config.Trainer.SaveFreq < 0) {
		return true
	}
	return slices.ContainsFunc(t.Handled, func(h string) bool { return covers(h, key) })
}

// covers reports whether an entry of Handled is the key, or a group that contains it.
func covers(entry, key string) bool {
	return entry == key || strings.HasSuffix(entry, ".") && strings.HasPrefix(key, entry)
}
