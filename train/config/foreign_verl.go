package config

import "vagen/internal/settings"

// What replaces further groups of keys of verl.
const (
	aboutUnread = "VAGEN's base file has this key, but its code never reads it; rewards are clipped and normalised by clip_low, clip_high, normalize and center of the group reward"
	aboutGroups = "filter.enable with filter.name drop_equal drops groups whose episodes all have the same score; they are not replaced"
	aboutLoRA   = "adapters are set by lora_rank, lora_alpha, target_modules and lora_adapter_path of actor_rollout_ref.model"
	aboutLevels = "VAGEN's base file has this key, but its code never reads it; reward.normalize sets the scope of the statistics"
	aboutQAT    = "weights are trained without quantization"
	aboutState  = "state rewards are options of an environment: set env.config.use_state_reward=true or the block env.config.state_reward, such as {state_estimation: {enable: true, reward: 0.5}, scorer: rules}; with data.train_files, set them in the config (env_config) of an entry"
	aboutLong   = "implement a length reward in the environment: "
)

// stateKeys are keys where users may expect state rewards.
var stateKeys = []settings.Foreign{
	refused("use_state_reward", aboutState, "false"),
	refused("state_reward.*", aboutState, "{}"),
	refused("env.use_state_reward", aboutState, "false"),
	refused("env.state_reward.*", aboutState, "{}"),
	refused("trainer.use_state_reward", aboutState, "false"),
	refused("trainer.state_reward.*", aboutState, "{}"),
	refused("rollout_manager.use_state_reward", aboutState, "false"),
	refused("algorithm.use_state_reward", aboutState, "false"),
}

// verlKeys are keys of verl's composed configurations, versions 0.3 to 0.8 and the
// DAPO recipe, that are in none of the other groups.
var verlKeys = slicesOf(
	noted(aboutUnread, "algorithm.reward_scaling", "algorithm.reward_bias", "algorithm.reward_clip", "algorithm.reward_norm"),
	noted(aboutLevels, "algorithm.reward_mean_level", "algorithm.reward_std_level"),
	[]settings.Foreign{
		refused("algorithm.filter_groups.enable", aboutGroups, "false"),
		refused("reward_model.overlong_buffer.enable", aboutLong+aboutRegister, "false"),
		refused("reward.custom_reward_function.path", "rewards come from the environment: "+aboutRegister),
		refused("reward.reward_model.enable", aboutNoRM+"; for one behind an API see package reward/judge", "false"),
		refused("reward.reward_model.enable_resource_pool", aboutNoRM, "false"),
		refused("reward.reward_manager.name", aboutNoRM, "naive"),
		refused("reward.reward_manager.module.path", aboutNoRM),
		refused("actor_rollout_ref.actor.qat.enable", aboutQAT, "false"),
		refused("actor_rollout_ref.rollout.qat.enable", aboutQAT, "false"),
		refused("actor_rollout_ref.rollout.skip.enable", "use vagen replay to replay recorded steps", "false"),
		refused("actor_rollout_ref.model.lora.rank", aboutLoRA, "0"),
		refused("actor_rollout_ref.model.lora.adapter_path", aboutLoRA),
		refused("critic.model.lora.rank", "a separate critic is trained as a whole", "0"),
		refused("critic.model.lora.adapter_path", "a separate critic is trained as a whole"),
		refused("critic.model.lora_adapter_path", "a separate critic is trained as a whole"),
		refused("critic.model.exclude_modules", "a separate critic is trained as a whole"),
		refused("critic.model.hf_config_path", "the configuration is config.json in the model's folder"),
		refused("critic.model.custom_chat_template", "put the template into the model's folder"),
		refused("data.function_tool_path", "implement tools as an environment: "+aboutRegister),
		refused("data.mm_processor_kwargs.*", "set image limits in preprocessor_config.json in the model's folder", "{}"),
		refused("distillation.enabled", "there is no distillation; vagen train learns from rewards", "false"),
	},
	noted(aboutGroups, "algorithm.filter_groups.*"),
	noted(aboutNoRM, "reward.num_workers", "reward._target_", "reward.custom_reward_function.*", "reward.reward_model.*", "reward.reward_manager.*", "reward.sandbox_fusion.*"),
	noted(aboutQAT, "actor_rollout_ref.actor.qat.*", "actor_rollout_ref.rollout.qat.*"),
	noted("there is no distillation", "distillation.*"),
	noted("use vagen replay to replay recorded steps", "actor_rollout_ref.rollout.skip.*"),
	noted(aboutLoRA, "actor_rollout_ref.model.lora.*", "critic.model.lora.*"),
	noted(aboutColumns, "data.audio_key"),
	noted(aboutPlacement, "actor_rollout_ref.ref.model.*", "model_engine", "critic.fsdp.*"),
	noted(aboutParallel, "actor_rollout_ref.rollout.nnodes", "actor_rollout_ref.rollout.n_gpus_per_node", "actor_rollout_ref.rollout.disaggregation.*"),
	noted("the learning rate of a step follows from its number, counted from 1", "actor_rollout_ref.actor.optim.zero_indexed_step", "critic.optim.zero_indexed_step"),
	noted("XLA fuses operations automatically", "critic.model.use_liger", "critic.model.use_fused_kernels", "critic.model.fused_kernel_options.*"),
	noted("the supported models have no experts and no multi-token-prediction heads", "critic.model.mtp.*"),
	noted(aboutProfile, "actor_rollout_ref.profiler.*", "trainer.npu_profile.*", "trainer.controller_nsight_options.*", "trainer.worker_nsight_options.*"),
)
