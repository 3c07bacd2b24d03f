package train_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/train/config"
)

// known are the keys of VAGEN, by group. A key in brackets is refused with any value except the
// one after it.
var known = map[string]string{
	"algorithm": `adv_estimator gamma lam high_level_gamma gamma_turn lambda_turn lambda_token bi_level_mix kl_penalty kl_ctrl.type kl_ctrl.kl_coef
		kl_ctrl.target_kl kl_ctrl.horizon use_kl_in_reward norm_adv_by_std_in_grpo`,
	"data": `train_files val_files train_batch_size val_batch_size max_prompt_length max_response_length max_trajectory_length image_key prompt_key truncation
		shuffle filter_overlong_prompts base_seed apply_chat_template_kwargs.enable_thinking return_raw_chat return_raw_input_ids return_multi_modal_inputs tokenizer`,
	"actor_rollout_ref": `hybrid_engine model.path model.use_remove_padding model.use_fused_kernels model.enable_gradient_checkpointing model.lora_rank model.lora_alpha
		model.target_modules model.trust_remote_code actor.optim.lr actor.optim.lr_warmup_steps actor.optim.lr_warmup_steps_ratio actor.optim.warmup_style
		actor.optim.min_lr_ratio actor.optim.weight_decay actor.optim.total_training_steps actor.ppo_mini_batch_size actor.ppo_micro_batch_size
		actor.ppo_micro_batch_size_per_gpu actor.use_dynamic_bsz actor.ppo_max_token_len_per_gpu actor.ppo_epochs actor.shuffle actor.grad_clip
		actor.grad_norm_threshold actor.clip_ratio actor.clip_ratio_low actor.clip_ratio_high actor.clip_ratio_c actor.loss_agg_mode actor.policy_loss.loss_mode
		actor.entropy_coeff actor.use_kl_loss actor.kl_loss_coef actor.kl_loss_type actor.freeze_vision_tower actor.strategy actor.ulysses_sequence_parallel_size
		actor.fsdp_config.param_offload actor.fsdp_config.optimizer_offload actor.fsdp_config.fsdp_size actor.fsdp_config.wrap_policy.min_num_params actor.checkpoint.save_contents
		ref.strategy ref.log_prob_micro_batch_size ref.log_prob_micro_batch_size_per_gpu ref.log_prob_use_dynamic_bsz ref.log_prob_max_token_len_per_gpu
		ref.fsdp_config.param_offload ref.ulysses_sequence_parallel_size rollout.name rollout.mode rollout.n rollout.temperature rollout.top_p rollout.top_k
		[rollout.do_sample]true rollout.limit_mm_per_prompt rollout.tensor_model_parallel_size rollout.gpu_memory_utilization rollout.enforce_eager rollout.free_cache_engine
		rollout.enable_chunked_prefill rollout.max_num_batched_tokens rollout.max_num_seqs rollout.max_model_len rollout.dtype rollout.load_format rollout.layered_summon
		rollout.disable_log_stats rollout.prompt_length rollout.response_length rollout.max_trajectory_length rollout.log_prob_micro_batch_size_per_gpu
		rollout.log_prob_use_dynamic_bsz rollout.multi_turn.enable rollout.agent.agent_loop_config_path rollout.engine_kwargs.sglang.attention_backend
		rollout.val_kwargs.temperature rollout.val_kwargs.top_p rollout.val_kwargs.top_k rollout.val_kwargs.do_sample rollout.val_kwargs.n
		[model.external_lib]null [model.override_config]{} [rollout.ignore_eos]false [rollout.use_fire_sampling]false`,
	"critic": `optim.lr optim.lr_warmup_steps_ratio optim.warmup_style optim.min_lr_ratio optim.weight_decay model.path model.tokenizer_path model.use_remove_padding
		model.enable_gradient_checkpointing model.trust_remote_code model.fsdp_config.param_offload model.fsdp_config.optimizer_offload ppo_mini_batch_size
		ppo_micro_batch_size ppo_micro_batch_size_per_gpu ppo_max_token_len_per_gpu use_dynamic_bsz forward_micro_batch_size_per_gpu ppo_epochs shuffle grad_clip
		grad_norm_threshold cliprange_value use_reward_mask enable strategy [model.external_lib]null`,
	"trainer": `total_epochs total_training_steps project_name experiment_name logger val_generations_to_log_to_wandb log_val_generations val_log_select save_freq test_freq
		critic_warmup val_before_train resume_mode resume_from_path default_local_dir remove_previous_ckpt_in_save max_actor_ckpt_to_keep max_critic_ckpt_to_keep
		save_best_actor nnodes n_gpus_per_node balance_batch concat_multi_turn harness compact_budget compact_summary_budget rollout_data_dir validation_data_dir
		log_image.enable log_image.max_pending log_image.png_compress_level skip_pad_tokens [replace_image_tokens_for_logging]true [val_only]false [default_hdfs_dir]null
		[del_local_ckpt_after_load]false`,
	"rollout_manager": `max_turns window_size n_trajectory max_trajectory_length use_multi_turn_reward use_loss_mask use_gae_mask special_token_for_loss_mask truncation
		use_service base_url timeout max_workers n_gpus_per_node mini_batch_size [use_turn_update]false`,
	"filter":                 `enable name filter_kwargs.topk filter_kwargs.top_p filter_kwargs.ddof`,
	"huggingface_hub":        `hf_save_freq repo_id private upload_contents`,
	"reward_model":           `[enable]false [reward_manager]naive strategy model.path micro_batch_size`,
	"custom_reward_function": `[path]null name`,
}

// TestEveryKeyOfVAGENIsKnown: each has an effect, or gives a note, or is refused with advice.
func TestEveryKeyOfVAGENIsKnown(t *testing.T) {
	count := map[string]int{}
	for group, list := range known {
		for _, word := range strings.Fields(list) {
			name, harmless, refused := strings.Cut(strings.TrimPrefix(word, "["), "]")
			key := group + "." + name
			s, ok := config.Explain(key)
			if !ok && strings.HasPrefix(name, "filter_kwargs.") || strings.HasPrefix(name, "apply_chat_template_kwargs.") {
				s, ok = config.Explain(key[:strings.LastIndex(key, ".")]) // an entry of a map
			}
			require.True(t, ok, key)
			require.NotEmpty(t, s.About, key)
			require.Equal(t, refused, s.Kind == "refused", "%s is %s", key, s.Kind)
			count[s.Kind]++
			if refused {
				_, err := config.Load("", "env=x", key+"="+harmless)
				require.NoError(t, err, key)
				_, err = config.Load("", "env=x", key+"=7")
				require.ErrorContains(t, err, key+" is 7, which is not supported: ", key)
			}
		}
	}
	t.Logf("keys of VAGEN: %d settings, %d other names, %d noted, %d refused", count["setting"], count["alias"],
		count["noted"], count["refused"])
}

// TestNoForeignKeyHidesASetting: no key is both a setting and a foreign key.
func TestNoForeignKeyHidesASetting(t *testing.T) {
	kind := map[string]string{}
	for _, s := range config.Settings() {
		require.Empty(t, kind[s.Key], "%s is %s and %s", s.Key, kind[s.Key], s.Kind)
		kind[s.Key] = s.Kind
	}
}

// TestRecipesOfVAGENLoad with the command lines of two scripts, of the first release and of
// Lite, and a configuration with references.
func TestRecipesOfVAGENLoad(t *testing.T) {
	train := traintest.WriteFile(t,
		"envs: [{name: Sokoban, n_envs: 500, seed: [1, 10000, 1], max_turns: 5, response_length_per_turn: 512, config: {render_mode: vision}}]")
	full := strings.Fields(`algorithm.adv_estimator=bi_level_gae algorithm.high_level_gamma=0.95 data.train_files=FILE data.val_files=FILE data.train_batch_size=128
		data.max_prompt_length=1024 data.max_response_length=200 data.max_trajectory_length=2400 data.image_key=images data.truncation=left
		actor_rollout_ref.model.path=Qwen/Qwen2.5-VL-3B-Instruct actor_rollout_ref.actor.optim.lr=1e-6 actor_rollout_ref.model.use_remove_padding=True
		actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 actor_rollout_ref.actor.use_kl_loss=False
		actor_rollout_ref.actor.kl_loss_coef=0.001 actor_rollout_ref.actor.kl_loss_type=mse actor_rollout_ref.model.enable_gradient_checkpointing=True
		actor_rollout_ref.actor.fsdp_config.param_offload=True actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1
		actor_rollout_ref.rollout.tensor_model_parallel_size=2 actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.gpu_memory_utilization=0.1
		actor_rollout_ref.rollout.n=1 actor_rollout_ref.ref.fsdp_config.param_offload=True actor_rollout_ref.rollout.top_p=0.95 actor_rollout_ref.rollout.temperature=0.7
		critic.optim.lr=1e-5 critic.model.use_remove_padding=True critic.model.path=Qwen/Qwen2.5-VL-3B-Instruct critic.ppo_micro_batch_size_per_gpu=1
		algorithm.kl_ctrl.kl_coef=0.001 trainer.critic_warmup=0 trainer.logger=['console','wandb'] trainer.project_name=vagen_new trainer.n_gpus_per_node=4 trainer.nnodes=1
		trainer.save_freq=150 trainer.test_freq=20 trainer.total_training_steps=300 rollout_manager.max_turns=3 rollout_manager.window_size=5
		rollout_manager.use_multi_turn_reward=True rollout_manager.use_loss_mask=True rollout_manager.use_gae_mask=True trainer.val_before_train=True
		trainer.val_generations_to_log_to_wandb=8 rollout_manager.n_trajectory=1 rollout_manager.use_service=True rollout_manager.timeout=300
		+rollout_manager.mini_batch_size=64 rollout_manager.base_url="http://localhost:5000"`)
	lite := strings.Fields(`data.train_files=FILE data.val_files=FILE data.train_batch_size=32 data.max_prompt_length=1000 data.max_response_length=4000
		algorithm.adv_estimator=grpo algorithm.kl_ctrl.kl_coef=0.0 actor_rollout_ref.model.use_fused_kernels=True actor_rollout_ref.actor.ppo_mini_batch_size=32
		actor_rollout_ref.actor.checkpoint.save_contents=['model','hf_model','optimizer','extra'] actor_rollout_ref.rollout.name=sglang actor_rollout_ref.rollout.mode=async
		actor_rollout_ref.rollout.n=8 actor_rollout_ref.rollout.multi_turn.enable=True actor_rollout_ref.rollout.agent.agent_loop_config_path=agent.yaml
		actor_rollout_ref.model.lora_rank=32 actor_rollout_ref.model.lora_alpha=32 actor_rollout_ref.model.target_modules=all-linear critic.enable=False
		trainer.max_actor_ckpt_to_keep=1 trainer.concat_multi_turn=True filter.enable=True filter.filter_kwargs.top_p=0.9 trainer.total_training_steps=401`)
	load := func(path string, args []string) config.Config {
		t.Helper()
		for i := range args {
			args[i] = strings.Replace(args[i], "FILE", train, 1)
		}
		c, err := config.Load(path, args...)
		require.NoError(t, err)
		return c
	}
	c := load("", full)
	require.Equal(t, []any{2400, 8, true, "blocks", 1},
		[]any{c.Rollout.MaxTrajectory, c.Trainer.LogEpisodes, c.Rollout.UseService, c.Model.Recompute,
			c.Agent.Actor.MicroRows})
	c = load("", lite)
	require.Equal(t, []any{8, "none", true, 32}, []any{c.Rollout.Trajectories, c.Critic.Kind, c.Filter.Enable,
		c.Agent.Model.LoRARank})
	path := filepath.Join(filepath.Dir(traintest.WriteFile(t, `
data: {max_prompt_length: 512, max_trajectory_length: 3072, truncation: error}
actor_rollout_ref:
  actor: {use_dynamic_bsz: False, ppo_epochs: 1, ulysses_sequence_parallel_size: 1}
  rollout: {prompt_length: "${data.max_prompt_length}", log_prob_use_dynamic_bsz: "${actor_rollout_ref.actor.use_dynamic_bsz}", n: 1}
critic: {ppo_epochs: "${oc.select:actor_rollout_ref.actor.ppo_epochs,1}", ppo_mini_batch_size: "${oc.select:.nowhere,32}", model: {external_lib: "${actor_rollout_ref.model.external_lib}"}}
custom_reward_function: {path: null, name: compute_score}
trainer: {default_local_dir: "checkpoints/${trainer.project_name}/${trainer.experiment_name}", resume_from_path: False, val_only: False}
rollout_manager: {max_trajectory_length: "${data.max_trajectory_length}", truncation: "${data.truncation}"}
`)), "run.yaml")
	c = load(path, []string{"data.train_files=FILE", "data.val_files=FILE", "trainer.project_name=p",
		"data.max_trajectory_length=4000"})
	require.Equal(t, []any{4000, "checkpoints/p/run", 1, 32},
		[]any{c.Rollout.MaxTrajectory, c.Trainer.Dir, *c.Critic.Epochs, *c.Critic.MiniBatch})
}
