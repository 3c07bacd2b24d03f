package config

import "vagen/internal/settings"

// What does the job of groups of keys that set nothing here.
const (
	aboutPlacement = "where weights and optimiser lie is up to XLA on the devices of this process; model.recompute and lora_rank are what saves memory"
	aboutParallel  = "rows are split over devices by XLA, not by this key"
	aboutPacking   = "rows are always packed without padding"
	aboutEngine    = "responses come from the model that is trained, in the same process: there is no engine to set up; see model.cache_tokens and run.waves"
	aboutScoring   = "log-probs are computed in the micro-batches of the update: ppo_micro_batch_size_per_gpu, ppo_max_token_len_per_gpu or model.micro_tokens"
	aboutRay       = "a run is one process: there are no workers of Ray to place"
	aboutColumns   = "episodes are played from their environment and seed; columns of prompts and images are not read"
	aboutRegister  = "write it in Go, register it and start the run from a program of your own, as examples/ownenv and the registries of Trainer show"
	aboutNoRM      = "rewards come from environments and judges; there is no reward model"
	aboutProfile   = "profiles are Go's: see the metrics time/… of every step, and pprof"
)

// foreignKeys are the keys of VAGEN and of verl below it that are no fields of
// Config. The first entry that covers a key counts.
var foreignKeys = slicesOf(
	aliases, stateKeys, verlKeys, dataKeys, modelKeys, actorKeys, rolloutKeys, criticKeys, managerKeys, otherKeys,
)

func slicesOf(groups ...[]settings.Foreign) []settings.Foreign {
	out := []settings.Foreign{}
	for _, g := range groups {
		out = append(out, g...)
	}
	return out
}

func noted(about string, keys ...string) []settings.Foreign {
	var out []settings.Foreign
	for _, k := range keys {
		out = append(out, settings.Foreign{Key: k, Kind: settings.Noted, About: about})
	}
	return out
}

func refused(key, about string, harmless ...string) settings.Foreign {
	return settings.Foreign{Key: key, Kind: settings.Refused, About: about, Harmless: harmless}
}

func alias(key, to string, harmless ...string) settings.Foreign {
	return settings.Foreign{Key: key, Kind: settings.Alias, To: to, About: "another name of " + to, Harmless: harmless}
}

// aliases are other names of fields.
var aliases = []settings.Foreign{
	alias("env", "env.name"),
	alias("trainer.val_generations_to_log_to_wandb", "trainer.log_val_generations"),
	alias("filter.enabled", "filter.enable"),
	alias("algorithm.gamma_turn", "algorithm.high_level_gamma"),
	{Key: "trainer.concat_multi_turn", Kind: settings.Alias, To: "trainer.harness", About: "older form of trainer.harness: true is concat, false no_concat",
		Values: map[string]any{"true": "concat", "false": "no_concat"}},
	refused("actor_rollout_ref.rollout.do_sample", "learning compares responses that were drawn: leave it true, or set val_kwargs.do_sample for validation alone", "true"),
	alias("actor_rollout_ref.actor.optim.lr_scheduler_type", "actor_rollout_ref.actor.optim.warmup_style"),
	alias("critic.optim.lr_scheduler_type", "critic.optim.warmup_style"),
	alias("data.max_trajectory_length", "rollout_manager.max_trajectory_length"),
	alias("actor_rollout_ref.rollout.max_trajectory_length", "rollout_manager.max_trajectory_length"),
	alias("actor_rollout_ref.rollout.prompt_length", "data.max_prompt_length"),
	alias("actor_rollout_ref.rollout.response_length", "data.max_response_length"),
	// 1 is what the full system wants beside n_trajectory.
	alias("actor_rollout_ref.actor.ppo_micro_batch_size", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"),
	alias("critic.ppo_micro_batch_size", "critic.ppo_micro_batch_size_per_gpu"),
	alias("actor_rollout_ref.rollout.n", "rollout_manager.n_trajectory", "1"),
}

var dataKeys = slicesOf(
	noted(aboutColumns, "data.image_key", "data.video_key", "data.prompt_key", "data.reward_fn_key", "data.return_raw_input_ids", "data.return_raw_chat",
		"data.return_full_prompt", "data.return_multi_modal_inputs", "data.image_patch_size"),
	noted("run.workers says how many environments are at work at once", "data.filter_overlong_prompts_workers"),
	noted("the tokenizer is that of actor_rollout_ref.model.path", "data.tokenizer"),
	noted("run.seed decides the order of episodes", "data.seed"),
	noted("no code comes from a model's folder", "data.trust_remote_code"),
	noted("files are read where they lie", "data.use_shm"),
	noted("episodes are read at once, before the run", "data.dataloader_num_workers"),
	[]settings.Foreign{
		refused("data.custom_cls.path", "datasets are files of package env/dataset; for others, "+aboutRegister, "vagen/gym_agent_dataset.py"),
		refused("data.custom_cls.name", "datasets are files of package env/dataset", "AgenticDataset"),
		refused("data.sampler.*", "data.shuffle says in which order episodes are played", "data"),
		refused("data.datagen.*", "episodes come from files and environments"),
		refused("data.tool_config_path", "tools are environments: "+aboutRegister),
		refused("data.train_max_samples", "write a file with fewer episodes; n_envs says how many an entry has", "-1"),
		refused("data.val_max_samples", "write a file with fewer episodes; n_envs says how many an entry has", "-1"),
		refused("data.validation_shuffle", "validation plays its episodes in the order of the file", "false"),
	},
)

var modelKeys = slicesOf(
	noted(aboutPacking, "actor_rollout_ref.model.use_remove_padding", "critic.model.use_remove_padding"),
	noted("XLA fuses what it can by itself", "actor_rollout_ref.model.use_fused_kernels", "actor_rollout_ref.model.fused_kernel_options.*", "actor_rollout_ref.model.use_liger",
		"actor_rollout_ref.actor.use_fused_kernels", "actor_rollout_ref.actor.use_torch_compile", "actor_rollout_ref.ref.use_torch_compile"),
	noted("no code comes from a model's folder", "actor_rollout_ref.model.trust_remote_code", "critic.model.trust_remote_code"),
	noted("files are mapped into memory where they lie", "actor_rollout_ref.model.use_shm"),
	noted("activations stay on the device; model.recompute is what saves memory", "actor_rollout_ref.model.enable_activation_offload", "critic.model.enable_activation_offload"),
	noted("policy, generation and reference are one model in one process", "actor_rollout_ref.hybrid_engine", "actor_rollout_ref.nccl_timeout", "actor_rollout_ref.model_type"),
	noted("the tokenizer is that of the policy's folder", "actor_rollout_ref.model.tokenizer_path", "critic.model.tokenizer_path"),
	[]settings.Foreign{
		refused("actor_rollout_ref.model.external_lib", aboutRegister),
		refused("critic.model.external_lib", aboutRegister),
		refused("actor_rollout_ref.model.override_config.*", "change config.json in the model's folder", "{}"),
		refused("critic.model.override_config.*", "change config.json in the model's folder", "{}"),
		refused("actor_rollout_ref.model.hf_config_path", "the configuration of a model is in its folder"),
		refused("critic.model.lora_rank", "a separate critic is trained as a whole", "0"),
		refused("actor_rollout_ref.model.custom_chat_template", "put the template into the model's folder"),
		refused("actor_rollout_ref.model.exclude_modules", "name what gets adapters in target_modules"),
	},
)

var actorKeys = slicesOf(
	noted(aboutPlacement, "actor_rollout_ref.actor.strategy", "actor_rollout_ref.actor.fsdp_config.*", "actor_rollout_ref.actor.megatron.*",
		"actor_rollout_ref.ref.strategy", "actor_rollout_ref.ref.fsdp_config.*", "actor_rollout_ref.ref.megatron.*"),
	noted(aboutParallel, "actor_rollout_ref.actor.ulysses_sequence_parallel_size", "actor_rollout_ref.ref.ulysses_sequence_parallel_size"),
	noted("the schedule runs over trainer.total_training_steps", "actor_rollout_ref.actor.optim.total_training_steps", "critic.optim.total_training_steps"),
	noted("the critic computes again what the policy does: actor_rollout_ref.model.enable_gradient_checkpointing", "critic.model.enable_gradient_checkpointing"),
	noted("the optimiser is AdamW", "actor_rollout_ref.actor.optim.optimizer", "actor_rollout_ref.actor.optim.optimizer_impl", "critic.optim.optimizer", "critic.optim.optimizer_impl"),
	noted("logits are computed in pieces wherever that saves memory", "actor_rollout_ref.actor.entropy_from_logits_with_chunking", "actor_rollout_ref.actor.entropy_checkpointing",
		"actor_rollout_ref.ref.entropy_from_logits_with_chunking", "actor_rollout_ref.ref.entropy_checkpointing"),
	noted("a checkpoint always holds weights in the Hugging Face layout, the optimiser and the state of the run",
		"actor_rollout_ref.actor.checkpoint.*", "critic.checkpoint.*"),
	noted(aboutScoring, "actor_rollout_ref.ref.log_prob_micro_batch_size", "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
		"actor_rollout_ref.ref.log_prob_use_dynamic_bsz", "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu"),
	noted(aboutProfile, "actor_rollout_ref.actor.profiler.*", "actor_rollout_ref.ref.profiler.*", "actor_rollout_ref.rollout.profiler.*", "critic.profiler.*", "global_profiler.*"),
	noted("classes are those of this library", "actor_rollout_ref._target_", "actor_rollout_ref.*._target_", "actor_rollout_ref.*.*._target_", "critic._target_", "critic.*._target_", "algorithm._target_", "algorithm.*._target_"),
	noted("the optimiser is AdamW with beta1, beta2 and weight_decay", "actor_rollout_ref.actor.optim.betas", "actor_rollout_ref.actor.optim.override_optimizer_config", "critic.optim.betas", "critic.optim.override_optimizer_config"),
	noted("gradients are clipped by actor.grad_clip and critic.grad_clip", "actor_rollout_ref.actor.optim.clip_grad", "critic.optim.clip_grad"),
	noted("a cosine falls once", "actor_rollout_ref.actor.optim.num_cycles", "critic.optim.num_cycles"),
	noted("entropy is computed when entropy_coeff is not 0", "actor_rollout_ref.actor.calculate_entropy"),
	noted("diagnostics are chosen by trainer.metrics", "actor_rollout_ref.actor.calculate_sum_pi_squared", "actor_rollout_ref.actor.sum_pi_squared_checkpointing"),
	noted("rollout_manager.n_trajectory says how many episodes a start state has", "actor_rollout_ref.actor.rollout_n", "actor_rollout_ref.ref.rollout_n"),
	noted("the value loss is averaged over its tokens", "critic.loss_agg_mode"),
	noted("the models here have no experts, and no heads for several tokens", "actor_rollout_ref.actor.router_replay.*", "actor_rollout_ref.ref.router_replay.*",
		"actor_rollout_ref.rollout.enable_rollout_routing_replay", "actor_rollout_ref.rollout.mtp.*", "actor_rollout_ref.model.mtp.*"),
	noted(aboutPacking, "actor_rollout_ref.actor.use_remove_padding", "actor_rollout_ref.actor.use_prefix_grouper"),
	noted("model.recompute is what saves memory", "actor_rollout_ref.model.tiled_mlp.*", "critic.model.tiled_mlp.*", "critic.model.use_shm", "critic.model.lora_alpha", "critic.model.target_modules"),
	noted("the seed is run.seed", "actor_rollout_ref.actor.data_loader_seed", "critic.data_loader_seed"),
)

var rolloutKeys = slicesOf(
	noted(aboutScoring, "actor_rollout_ref.rollout.log_prob_micro_batch_size", "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu",
		"actor_rollout_ref.rollout.log_prob_use_dynamic_bsz", "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu"),
	noted("model.bfloat16 chooses the arithmetic, of generation and of training alike", "actor_rollout_ref.rollout.dtype"),
	noted("the longest conversation is rollout_manager.max_trajectory_length, or what the model can hold", "actor_rollout_ref.rollout.max_model_len"),
	noted("environments decide what a conversation is; trainer.harness chooses how it is laid out", "actor_rollout_ref.rollout.multi_turn.*",
		"actor_rollout_ref.rollout.agent.*", "actor_rollout_ref.rollout.mode"),
	noted(aboutEngine, "actor_rollout_ref.rollout.tensor_model_parallel_size", "actor_rollout_ref.rollout.data_parallel_size", "actor_rollout_ref.rollout.expert_parallel_size",
		"actor_rollout_ref.rollout.pipeline_model_parallel_size", "actor_rollout_ref.rollout.gpu_memory_utilization", "actor_rollout_ref.rollout.enforce_eager",
		"actor_rollout_ref.rollout.free_cache_engine", "actor_rollout_ref.rollout.enable_chunked_prefill", "actor_rollout_ref.rollout.enable_prefix_caching",
		"actor_rollout_ref.rollout.max_num_batched_tokens", "actor_rollout_ref.rollout.max_num_seqs", "actor_rollout_ref.rollout.load_format",
		"actor_rollout_ref.rollout.layered_summon", "actor_rollout_ref.rollout.disable_log_stats", "actor_rollout_ref.rollout.engine_kwargs.*",
		"actor_rollout_ref.rollout.cudagraph_capture_sizes", "actor_rollout_ref.rollout.update_weights_bucket_megabytes", "actor_rollout_ref.rollout.skip_tokenizer_init",
		"actor_rollout_ref.rollout.prometheus.*", "actor_rollout_ref.rollout.trace.*", "actor_rollout_ref.rollout.over_sample_rate",
		"actor_rollout_ref.rollout.logprobs_mode", "actor_rollout_ref.rollout.scheduling_policy", "actor_rollout_ref.rollout.multi_stage_wake_up",
		"actor_rollout_ref.rollout.checkpoint_engine.*", "actor_rollout_ref.rollout.skip_dump_dir", "actor_rollout_ref.rollout.quantization_config_file"),
	noted("log-probs of sampled tokens are always kept", "actor_rollout_ref.rollout.calculate_log_probs"),
	[]settings.Foreign{
		refused("actor_rollout_ref.rollout.ignore_eos", "a turn ends with the end-of-turn token: its reward sits there", "false"),
		refused("actor_rollout_ref.rollout.skip_rollout", "vagen replay plays recorded steps again", "false"),
		refused("actor_rollout_ref.rollout.quantization", "model.bfloat16 is the smallest arithmetic"),
		refused("actor_rollout_ref.rollout.use_fire_sampling", "sample with temperature, top_p and top_k", "false"),
	},
)

var criticKeys = slicesOf(
	noted(aboutPlacement, "critic.strategy", "critic.model.fsdp_config.*", "critic.fsdp_config.*", "critic.megatron.*"),
	noted(aboutParallel, "critic.ulysses_sequence_parallel_size"),
	noted(aboutScoring, "critic.forward_micro_batch_size", "critic.forward_micro_batch_size_per_gpu", "critic.forward_max_token_len_per_gpu"),
	noted("a separate critic starts from the policy, a shared one is part of it", "critic.rollout_n"),
)

var managerKeys = slicesOf(
	noted("who wrote a token is recorded when it is written: no marks are put into the text to find responses again", "rollout_manager.special_token_for_loss_mask"),
	noted(aboutRay, "rollout_manager.n_gpus_per_node"),
	noted("run.workers says how many environments are at work at once", "rollout_manager.mini_batch_size"),
	noted("the estimator is algorithm.adv_estimator", "rollout_manager.algorithm"),
	[]settings.Foreign{
		alias("rollout_manager.truncation", "data.truncation"),
		refused("rollout_manager.use_turn_update", "trainer.harness no_concat makes a row of every turn", "false"),
	},
)

var otherKeys = slicesOf(
	noted("this library's defaults stand in for the files of a Hydra composition; --preset chooses others", "defaults", "hydra.*"),
	noted("environments are named by env.name or data.train_files; vagen env list shows them", "env_registry.*"),
	noted(aboutRay, "ray_init.*", "ray_kwargs.*", "transfer_queue.*", "trainer.nnodes", "trainer.n_gpus_per_node", "trainer.device", "trainer.ray_wait_register_center_timeout",
		"trainer.use_legacy_worker_impl", "trainer.rollout_wait_timeout"),
	noted("micro-batches are packed to equal length, longest rows first", "trainer.balance_batch"),
	noted("logs show what was said, without padding and special tokens", "trainer.skip_special_tokens_val", "trainer.skip_special_tokens_train"),
	noted(aboutProfile, "trainer.profile_steps", "trainer.profile_continuous_steps"),
	[]settings.Foreign{
		refused("trainer.val_only", "vagen eval plays validation levels alone; so does trainer.total_training_steps 0 with val_before_train", "false"),
		refused("trainer.default_hdfs_dir", "copy the run folder where you want it"),
		refused("trainer.del_local_ckpt_after_load", "the checkpoint that a run goes on from is kept until a later one replaces it", "false"),
		refused("trainer.esi_redundant_time", "SIGTERM saves and ends a run", "0"),
		refused("reward_model.enable", aboutNoRM+"; for one behind an API see package reward/judge", "false"),
		refused("reward_model.reward_manager", aboutNoRM, "naive"),
		refused("reward_model.launch_reward_fn_async", aboutNoRM, "false"),
		refused("reward_model.enable_resource_pool", aboutNoRM, "false"),
		refused("custom_reward_function.path", "an environment pays for its turns: "+aboutRegister),
		alias("algorithm.rollout_correction.bypass_old_logprob_for_rollout", "algorithm.rollout_correction.bypass_mode"),
		refused("algorithm.rollout_correction.loss_type", "actor_rollout_ref.actor.policy_loss.loss_mode is the loss; verl's reinforce with weights is cispo under bypass_mode, with clip_ratio_low 1 and clip_ratio_high one less than the threshold of the weights", "ppo_clip"),
		refused("algorithm.rollout_correction.use_policy_gradient", "see algorithm.rollout_correction.loss_type", "false"),
		refused("algorithm.rollout_correction.use_pure_rollout_correction", "see algorithm.rollout_correction.loss_type", "false"),
		refused("algorithm.rollout_correction.rollout_rs_threshold_lower", "write rollout_rs_threshold as lower_upper, such as 0.5_2.0"),
		refused("algorithm.rollout_correction.rollout_token_veto_threshold", "rollout_rs seq_max_k1 with lower_upper as threshold leaves out rows for single tokens"),
		refused("algorithm.use_pf_ppo", "choose episodes with filter.enable and filter.name", "false"),
		refused("algorithm.use_std_normalization", "norm_adv_by_std_in_grpo says whether groups are divided by their deviation", "false"),
		refused("algorithm.turn_advantage_weight", "adv_estimator gigpo with step_advantage_w compares turns and episodes", "1", "1.0"),
		refused("algorithm.traj_advantage_weight", "adv_estimator gigpo with step_advantage_w compares turns and episodes", "1", "1.0"),
		refused("algorithm.token_reward_type", "rollout_manager.use_multi_turn_reward and reward.credit_site place rewards", "return"),
	},
	noted(aboutNoRM, "reward_model.*", "custom_reward_function.*", "reward_manager.*", "sandbox_fusion.*"),
	noted("episodes are chosen by the group filter", "algorithm.pf_ppo.*"),
)
