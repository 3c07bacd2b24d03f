package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/train/config"
)

// The base files of VAGEN's generations, with the keys and values that matter to a
// loader: unset ones, references to other keys, keys that only another system has.
const (
	legacyBase = `
data: {tokenizer: null, prompt_key: prompt, max_prompt_length: 512, max_response_length: 512, max_trajectory_length: 3072, train_batch_size: 1024, val_batch_size: null,
  return_raw_input_ids: False, return_raw_chat: False, shuffle: True, filter_overlong_prompts: False, truncation: error, image_key: images}
actor_rollout_ref:
  hybrid_engine: True
  model: {path: m, external_lib: null, override_config: {}, enable_gradient_checkpointing: True, use_remove_padding: False}
  actor: {strategy: fsdp, ppo_mini_batch_size: 256, ppo_micro_batch_size: null, ppo_micro_batch_size_per_gpu: null, use_dynamic_bsz: False, grad_norm_threshold: 1000,
    shuffle: False, optim: {lr: 1e-6, lr_warmup_steps_ratio: 0., min_lr_ratio: null, warmup_style: constant, total_training_steps: -1}, fsdp_config: {wrap_policy: {min_num_params: 0}}}
  ref: {log_prob_micro_batch_size: null, log_prob_use_dynamic_bsz: "${actor_rollout_ref.actor.use_dynamic_bsz}"}
  rollout: {name: vllm, use_fire_sampling: False, prompt_length: "${data.max_prompt_length}", max_trajectory_length: "${data.max_trajectory_length}", ignore_eos: False,
    load_format: dummy_dtensor, max_model_len: null, do_sample: True, n: 1, limit_mm_per_prompt: 5}
critic: {strategy: fsdp, model: {path: m, tokenizer_path: "${actor_rollout_ref.model.path}", external_lib: "${actor_rollout_ref.model.external_lib}", override_config: {}},
  ppo_mini_batch_size: "${actor_rollout_ref.actor.ppo_mini_batch_size}", forward_micro_batch_size: "${critic.ppo_micro_batch_size}", use_reward_mask: False}
reward_model: {enable: False, max_length: null, use_dynamic_bsz: "${critic.use_dynamic_bsz}", reward_manager: naive}
custom_reward_function: {path: null, name: compute_score}
algorithm: {adv_estimator: gae, kl_ctrl: {type: fixed, kl_coef: 0.001}}
trainer: {total_epochs: 30, total_training_steps: null, logger: [console, wandb], save_freq: -1, resume_from_path: False, test_freq: -1, default_hdfs_dir: null,
  default_local_dir: "checkpoints/${trainer.project_name}/${trainer.experiment_name}", val_only: False}
rollout_manager: {max_trajectory_length: "${data.max_trajectory_length}", n_gpus_per_node: "${trainer.n_gpus_per_node}", truncation: "${data.truncation}"}
`
	liteBase = `
hydra: {searchpath: [file:verl/config]}
defaults: [ppo_trainer, env_registry, _self_]
data: {max_prompt_length: 9000, max_response_length: 8000, train_batch_size: 256, return_raw_chat: True, custom_cls: {path: vagen/gym_agent_dataset.py, name: AgenticDataset}}
actor_rollout_ref: {hybrid_engine: True, rollout: {name: sglang, multi_turn: {enable: True}}}
trainer: {skip_special_tokens_val: False, skip_special_tokens_train: False, log_image: {enable: True, max_pending: 2}}
algorithm: {reward_scaling: 10.0, reward_bias: -0.5, reward_clip: 20.0, reward_norm: True, reward_mean_level: group, reward_std_level: group}
filter: {name: reward_variance, filter_kwargs: {}, enable: False}
`
	nextBase = `
defaults: [ppo_trainer, env_registry, _self_]
data: {max_prompt_length: 9000, max_response_length: 8000, train_batch_size: 128, gen_batch_size: null, apply_chat_template_kwargs: {enable_thinking: False}}
actor_rollout_ref: {rollout: {name: sglang, multi_turn: {enable: True}}}
trainer: {skip_pad_tokens: True, concat_multi_turn: True, rollout_data_dir: "", log_image: {enable: false}}
filter: {name: reward_variance_top_p, filter_kwargs: {top_p: 0.9}, enable: False}
huggingface_hub: {hf_save_freq: null, repo_id: vagen-training, private: false, upload_contents: [hf_model]}
`
	// The configuration that Hydra composes from verl's files, of several versions.
	verlBase = `
model_engine: dp
actor_rollout_ref:
  actor: {_target_: x.Actor, qat: {enable: false, mode: w4a16}, optim: {zero_indexed_step: true, lr_scheduler_type: constant, clip_grad: 1.0}}
  ref: {model: null}
  rollout: {name: "???", n: 1, nnodes: 0, n_gpus_per_node: 8, skip: {enable: false, dump_dir: d}, qat: {enable: false}, disaggregation: {enabled: false}}
  model: {path: m, lora_rank: 0, lora: {rank: 0, alpha: 32, target_modules: [linear_qkv]}}
  profiler: {discrete: false, ranks: [0]}
data: {train_max_samples: -1, gen_batch_size: "${data.train_batch_size}", audio_key: audios, mm_processor_kwargs: {}, function_tool_path: null, custom_cls: {path: null, name: null}}
critic: {fsdp: {param_offload: false}, model: {lora: {rank: 0}, hf_config_path: null, lora_adapter_path: null, exclude_modules: null, mtp: {enable: false}}}
algorithm: {filter_groups: {enable: false, metric: null, max_num_gen_batches: 0}, use_pf_ppo: false, kl_ctrl: {horizon: 10000, target_kl: 0.1}}
reward: {num_workers: 8, custom_reward_function: {path: null, name: compute_score}, reward_manager: {name: naive, module: {path: null}}, reward_model: {enable: false, model_path: null}}
reward_model: {enable: false, overlong_buffer: {enable: false, len: 0}}
distillation: {enabled: false, teacher_models: {teacher_model: {key: null}}}
trainer: {npu_profile: {}, controller_nsight_options: {trace: cuda}, worker_nsight_options: {trace: cuda}, default_hdfs_dir: null}
`
)

// TestBaseFilesOfEveryGenerationLoadWithTheirScripts applies the overrides of a
// generation's scripts to its base file.
func TestBaseFilesOfEveryGenerationLoadWithTheirScripts(t *testing.T) {
	const files = "data.train_files=t.yaml data.val_files=v.yaml actor_rollout_ref.model.path=Qwen/Qwen2.5-VL-3B-Instruct "
	const ppo = files + `data.train_batch_size=128 actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1
		actor_rollout_ref.rollout.tensor_model_parallel_size=2 critic.model.path=Qwen/Qwen2.5-VL-3B-Instruct trainer.logger=['console','wandb'] trainer.save_freq=100
		trainer.test_freq=20 trainer.total_training_steps=401 `
	const concat = ppo + "trainer.concat_multi_turn=False "
	for name, c := range map[string]struct{ base, overrides, noted string }{
		"legacy masked_gae": {legacyBase, ppo +
			"algorithm.adv_estimator=masked_gae data.truncation=left rollout_manager.n_trajectory=1 +rollout_manager.mini_batch_size=64", "rollout_manager.mini_batch_size"},
		"legacy bi_level_gae": {legacyBase, ppo + "algorithm.adv_estimator=bi_level_gae algorithm.high_level_gamma=0.95", ""},
		"legacy grpo": {legacyBase, ppo +
			"algorithm.adv_estimator=grpo rollout_manager.n_trajectory=8 data.train_batch_size=16", ""},
		"lite gae":       {liteBase, ppo + "algorithm.adv_estimator=gae", "algorithm.reward_clip"},
		"lite no_concat": {liteBase, concat + "algorithm.adv_estimator=no_concat_gae_first", "trainer.log_image.enable"},
		"lite grpo": {liteBase, files +
			"actor_rollout_ref.actor.ppo_mini_batch_size=32 algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=8 filter.enable=True critic.enable=False", ""},
		"next gae": {nextBase, ppo +
			"algorithm.adv_estimator=gae huggingface_hub.repo_id=null data.gen_batch_size=null trainer.rollout_data_dir=", ""},
		"next upload":    {nextBase, ppo + "algorithm.adv_estimator=gae huggingface_hub.hf_save_freq=200", ""},
		"next no_concat": {nextBase, concat + "algorithm.adv_estimator=no_concat_gae huggingface_hub.repo_id=", ""},
		"next compact": {nextBase, ppo +
			"algorithm.adv_estimator=default_gae trainer.concat_multi_turn=null trainer.harness=compact", ""},
		"verl": {verlBase, ppo + "actor_rollout_ref.rollout.name=vllm", "algorithm.filter_groups.metric"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.Load(traintest.WriteFile(t, c.base), strings.Fields(c.overrides)...)
			require.NoError(t, err)
			var noted []string
			for _, n := range got.Notes {
				noted = append(noted, n.Keys...)
			}
			if c.noted != "" {
				require.Contains(t, noted, c.noted)
			}
			require.Nil(t, got.Trainer.RolloutDir)
		})
	}
}

// TestNullAndEmptyLeaveUnsetWhatCanBeUnset: as null in a file and as an override key=.
func TestNullAndEmptyLeaveUnsetWhatCanBeUnset(t *testing.T) {
	want, err := config.Load("", "env.name=sokoban")
	require.NoError(t, err)
	for _, key := range strings.Fields(`huggingface_hub.repo_id huggingface_hub.hf_save_freq data.gen_batch_size trainer.default_local_dir trainer.resume_from_path
		trainer.rollout_data_dir trainer.validation_data_dir critic.model.path critic.ppo_epochs actor_rollout_ref.model.path actor_rollout_ref.model.lora_adapter_path
		actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu actor_rollout_ref.rollout.limit_mm_per_prompt stability.early_stopping.metric data.response_length_per_turn
		algorithm.gamma_turn actor_rollout_ref.model.external_lib`) {
		for _, value := range []string{"null", "", `""`} {
			got, err := config.Load("", "env.name=sokoban", key+"="+value)
			require.NoError(t, err, "%s=%s", key, value)
			require.Equal(t, want, got, "%s=%s", key, value)
		}
	}
	_, err = config.Load("", "env.name=sokoban", "algorithm.adv_estimator=null")
	require.ErrorContains(t, err, "algorithm.adv_estimator is null, must be a text")
}

// TestRewardsAboutTheStateAreExplainedWhereUsersLookForThem: the message and vagen
// config explain say which keys switch them on.
func TestRewardsAboutTheStateAreExplainedWhereUsersLookForThem(t *testing.T) {
	for _, given := range []string{"use_state_reward=true", "state_reward.scorer=exact", "trainer.state_reward.budget=1",
		"rollout_manager.use_state_reward=true"} {
		_, err := config.Load("", "env.name=sokoban", given)
		require.ErrorContains(t, err, "env.config.use_state_reward=true", given)
		key, _, _ := strings.Cut(given, "=")
		s, ok := config.Explain(key)
		require.True(t, ok, key)
		require.Contains(t, s.About, "env.config.state_reward")
	}
	_, ok := config.Explain("state_reward")
	require.True(t, ok)
	_, err := config.Load("", "env.name=sokoban", "use_state_reward=false", "state_reward={}")
	require.NoError(t, err)
	c, err := config.Load("", "env.name=sokoban", "env.config.use_state_reward=true")
	require.NoError(t, err)
	require.Equal(t, true, c.Env.Config["use_state_reward"])
}
