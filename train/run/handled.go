package run

// handledKeys are the keys and groups that this package implements for a train.Trainer: it
// creates the model, the environments, the sinks, the folders and the checkpoints.
var handledKeys = []string{
	"model.", "data.apply_chat_template_kwargs", "actor_rollout_ref.model.", "actor_rollout_ref.rollout.engine.",
	"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "actor_rollout_ref.actor.use_dynamic_bsz",
	"actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "actor_rollout_ref.actor.freeze_vision_tower", "actor_rollout_ref.actor.fsdp_config.optimizer_offload", "actor_rollout_ref.ref.fsdp_config.param_offload",
	"critic.model.path", "critic.model.fsdp_config.optimizer_offload", "critic.model.fsdp_config.param_offload", "critic.ppo_micro_batch_size_per_gpu", "critic.use_dynamic_bsz",
	"critic.ppo_max_token_len_per_gpu", "critic.zero_head",
	"run.queue", "run.queue_options.", "rollout_manager.use_service", "rollout_manager.base_url", "rollout_manager.timeout",
	"trainer.", "huggingface_hub.",
}
