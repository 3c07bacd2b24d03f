package config

import "vagen/internal/settings"

// What does the job of further groups of keys of verl.
const (
	aboutUnread = "VAGEN's base file has this key, but its code never reads it; rewards are clipped and normalised by clip_low, clip_high, normalize and center of the group reward"
	aboutGroups = "filter.enable with filter.name drop_equal leaves out groups whose episodes all score alike; others are not played in their place"
	aboutLoRA   = "adapters are set by lora_rank, lora_alpha, target_modules and lora_adapter_path of actor_rollout_ref.model"
	aboutLevels = "VAGEN's base file has this key, but its code never reads it; reward.normalize names the scope of the statistics"
	aboutQAT    = "weights are trained without quantization"
	aboutState  = "rewards about the state are options of an environment: env.config.use_state_reward=true or the block env.config.state_reward, such as {state_estimation: {enable: true, reward: 0.5}, scorer: exact}; with data.train_files the same in the config (env_config) of an entry"
	aboutLong   = "the reward for length belongs into the environment: "
)

// stateKeys are where users look for rewards about the state.
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

// verlKeys are keys of verl's composed configurations, of versions 0.3 to 0.8 and of
// its recipe DAPO, beside those of the other groups.
var verlKeys = slicesOf(
	noted(aboutUnread, "algorithm.reward_scaling", "algorithm.reward_bias", "algorithm.reward_clip", "algorithm.reward_norm"),
	noted(aboutLevels, "algorithm.reward_mean_level", "algorithm.reward_std_level"),
	[]settings.Foreign{
		refused("algorithm.filter_groups.enable", aboutGroups, "false"),
		refused("reward_model.overlong_buffer.enable", aboutLong+aboutRegister, "false"),
		refused("reward.custom_reward_function.path", "an environment pays for its turns: "+aboutRegister),
		refused("reward.reward_model.enable", aboutNoRM+"; for one behind an API see package reward/judge", "false"),
		refused("reward.reward_model.enable_resource_pool", aboutNoRM, "false"),
		refused("reward.reward_manager.name", aboutNoRM, "naive"),
		refused("reward.reward_manager.module.path", aboutNoRM),
		refused("actor_rollout_ref.actor.qat.enable", aboutQAT, "false"),
		refused("actor_rollout_ref.rollout.qat.enable", aboutQAT, "false"),
		refused("actor_rollout_ref.rollout.skip.enable", "vagen replay plays recorded steps again", "false"),
		refused("actor_rollout_ref.model.lora.rank", aboutLoRA, "0"),
		refused("actor_rollout_ref.model.lora.adapter_path", aboutLoRA),
		refused("critic.model.lora.rank", "a separate critic is trained as a whole", "0"),
		refused("critic.model.lora.adapter_path", "a separate critic is trained as a whole"),
		refused("critic.model.lora_adapter_path", "a separate critic is trained as a whole"),
		refused("critic.model.exclude_modules", "a separate critic is trained as a whole"),
		refused("critic.model.hf_config_path", "the configuration of a model is in its folder"),
		refused("critic.model.custom_chat_template", "put the template into the model's folder"),
		refused("data.function_tool_path", "tools are environments: "+aboutRegister),
		refused("data.mm_processor_kwargs.*", "set the limits of pictures in preprocessor_config.json of the model's folder", "{}"),
		refused("distillation.enabled", "the loss has no teacher; vagen train learns from rewards", "false"),
	},
	noted(aboutGroups, "algorithm.filter_groups.*"),
	noted(aboutNoRM, "reward.num_workers", "reward._target_", "reward.custom_reward_function.*", "reward.reward_model.*", "reward.reward_manager.*", "reward.sandbox_fusion.*"),
	noted(aboutQAT, "actor_rollout_ref.actor.qat.*", "actor_rollout_ref.rollout.qat.*"),
	noted("there is no teacher", "distillation.*"),
	noted("vagen replay plays recorded steps again", "actor_rollout_ref.rollout.skip.*"),
	noted(aboutLoRA, "actor_rollout_ref.model.lora.*", "critic.model.lora.*"),
	noted(aboutColumns, "data.audio_key"),
	noted(aboutPlacement, "actor_rollout_ref.ref.model.*", "model_engine", "critic.fsdp.*"),
	noted(aboutParallel, "actor_rollout_ref.rollout.nnodes", "actor_rollout_ref.rollout.n_gpus_per_node", "actor_rollout_ref.rollout.disaggregation.*"),
	noted("the rate of a step is that of its number, counted from 1", "actor_rollout_ref.actor.optim.zero_indexed_step", "critic.optim.zero_indexed_step"),
	noted("XLA fuses what it can by itself", "critic.model.use_liger", "critic.model.use_fused_kernels", "critic.model.fused_kernel_options.*"),
	noted("the models here have no experts, and no heads for several tokens", "critic.model.mtp.*"),
	noted(aboutProfile, "actor_rollout_ref.profiler.*", "trainer.npu_profile.*", "trainer.controller_nsight_options.*", "trainer.worker_nsight_options.*"),
)
