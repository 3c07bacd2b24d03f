package train_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/train"
	"vagen/train/config"
)

// otherValues are valid values, different from the defaults, of the keys in OuterKeys. Some
// need another key.
var otherValues = map[string]string{
	"trainer.save_freq":          "1",
	"trainer.save_best_actor":    "true with trainer.test_freq=1",
	"model.backend":              "go",
	"model.devices":              "2",
	"model.same_bytes":           "true",
	"model.num_nodes":            "2",
	"model.node_timeout":         "5",
	"model.part_per_device":      "true",
	"model.autotune":             "/k.txt with model.backend=cuda",
	"model.autotune_sha256":      "ab with model.autotune=/k.txt model.backend=cuda",
	"model.shard_weights":        "true",
	"trainer.n_gpus_per_node":    "2",
	"model.bfloat16":             "true",
	"model.recompute":            "blocks",
	"model.micro_tokens":         "64",
	"model.cache_tokens":         "64",
	"model.compile_cache":        "off",
	"model.tokens_per_call":      "4",
	"model.share_prefix":         "true",
	"model.draft_tokens":         "3",
	"critic.model.path":          "/m",
	"critic.zero_head":           "true",
	"critic.use_dynamic_bsz":     "true",
	"trainer.project_name":       "p",
	"trainer.experiment_name":    "e",
	"trainer.logger":             "[jsonl]",
	"trainer.prometheus_address": "localhost:1",
	"trainer.resume_mode":        "disable",
	"trainer.resume_from_path":   "/c with trainer.resume_mode=resume_path",
	"trainer.default_local_dir":  "/d",
	"huggingface_hub.private":    "true",
	"huggingface_hub.repo_id":    "a/b",

	"data.apply_chat_template_kwargs":                       "{enable_thinking: false}",
	"actor_rollout_ref.model.path":                          "/m",
	"actor_rollout_ref.ref.model.path":                      "/t with actor_rollout_ref.actor.use_kl_loss=true",
	"actor_rollout_ref.model.lora_rank":                     "4",
	"actor_rollout_ref.model.lora_alpha":                    "8",
	"actor_rollout_ref.model.target_modules":                "[q_proj]",
	"actor_rollout_ref.model.lora_adapter_path":             "/a",
	"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu":  "2",
	"actor_rollout_ref.actor.use_dynamic_bsz":               "true",
	"actor_rollout_ref.actor.ppo_max_token_len_per_gpu":     "64",
	"actor_rollout_ref.actor.freeze_vision_tower":           "true",
	"critic.ppo_micro_batch_size_per_gpu":                   "2",
	"actor_rollout_ref.actor.fsdp_config.optimizer_offload": "true",
	"actor_rollout_ref.ref.fsdp_config.param_offload":       "true with actor_rollout_ref.actor.use_kl_loss=true",
	"critic.model.fsdp_config.optimizer_offload":            "true",
	"critic.model.fsdp_config.param_offload":                "true",
	"critic.ppo_max_token_len_per_gpu":                      "64",
	"rollout_manager.use_service":                           "true",
	"rollout_manager.base_url":                              "http://localhost:1",
	"rollout_manager.timeout":                               "3",
	"actor_rollout_ref.rollout.engine.addresses":            "[http://h:1] with actor_rollout_ref.rollout.name=vllm",
	"actor_rollout_ref.rollout.engine.model":                "m",
	"actor_rollout_ref.rollout.engine.api_key_env":          "KEY",
	"actor_rollout_ref.rollout.engine.timeout":              "1",
	"actor_rollout_ref.rollout.engine.sync_timeout":         "1",
	"actor_rollout_ref.rollout.engine.attempts":             "1",
	"actor_rollout_ref.rollout.engine.max_in_flight":        "1",
	"actor_rollout_ref.rollout.engine.eject_after":          "1",
	"actor_rollout_ref.rollout.engine.start_timeout":        "1",
	"actor_rollout_ref.rollout.engine.outage_timeout":       "1",
	"actor_rollout_ref.rollout.engine.mixed_versions":       "keep",
	"actor_rollout_ref.rollout.engine.sync_dir":             "/s",
	"actor_rollout_ref.rollout.engine.server_sync_dir":      "/s",
	"actor_rollout_ref.rollout.engine.check_responses":      "1",
	"actor_rollout_ref.rollout.engine.check_limit":          "1",
	"actor_rollout_ref.ref.engine.addresses":                "[http://h:1] with actor_rollout_ref.actor.use_kl_loss=true",
	"actor_rollout_ref.ref.engine.name":                     "sglang",
	"actor_rollout_ref.ref.engine.model":                    "m",
	"actor_rollout_ref.ref.engine.api_key_env":              "KEY",
	"actor_rollout_ref.ref.engine.timeout":                  "1",
	"actor_rollout_ref.ref.engine.attempts":                 "1",
	"actor_rollout_ref.ref.engine.max_in_flight":            "1",
	"actor_rollout_ref.ref.engine.eject_after":              "1",
	"actor_rollout_ref.ref.engine.start_timeout":            "1",
	"actor_rollout_ref.ref.engine.outage_timeout":           "1",
	"model.rollout_dtype":                                   "int8 with algorithm.rollout_correction.rollout_is=token",
	"run.queue":                                             "embedded",
	"run.queue_options.name":                                "q with run.queue=embedded",
	"run.queue_options.listen":                              "127.0.0.1:1 with run.queue=embedded",
	"run.queue_options.lease":                               "5 with run.queue=embedded",
	"run.queue_options.tries":                               "5 with run.queue=embedded",
	"run.queue_options.no_worker_timeout":                   "5 with run.queue=embedded",
	"run.queue_options.sync":                                "true with run.queue=embedded",
	"run.queue_options.creds":                               "/c with run.queue=nats://h:1",
	"run.queue_options.user":                                "u with run.queue=embedded run.queue_options.key_env=K",
	"run.queue_options.key_env":                             "K with run.queue=embedded",
	"run.queue_options.tls_ca":                              "/c with run.queue=nats://h:1",
	"run.queue_options.tls_cert":                            "/c with run.queue=embedded run.queue_options.tls_key=/k",
	"run.queue_options.tls_key":                             "/k with run.queue=embedded run.queue_options.tls_cert=/c",
	"trainer.log_val_generations":                           "1",
	"trainer.val_log_select":                                "first",
	"trainer.val_log_success_ratio":                         "0.25",
	"trainer.rollout_data_dir":                              "/r",
	"trainer.rollout_data_scores":                           "true with trainer.rollout_data_dir=/r",
	"trainer.validation_data_dir":                           "/v",
	"trainer.log_image.enable":                              "true",
	"trainer.log_image.max_pending":                         "3",
	"trainer.log_image.png_compress_level":                  "1",
	"trainer.log_image.disk_quota_mb":                       "1",
	"trainer.allow_config_change":                           "true",
	"trainer.remove_previous_ckpt_in_save":                  "true",
	"trainer.max_actor_ckpt_to_keep":                        "3",
	"trainer.max_critic_ckpt_to_keep":                       "2 with trainer.max_actor_ckpt_to_keep=2",
	"huggingface_hub.hf_save_freq":                          "2 with trainer.save_freq=2",
	"huggingface_hub.upload_contents":                       "[adapter] with actor_rollout_ref.model.lora_rank=2",
}

// TestABareTrainerRefusesKeysThatNothingHonours sets every key of OuterKeys.
func TestABareTrainerRefusesKeysThatNothingHonours(t *testing.T) {
	for _, key := range train.OuterKeys() {
		c := traintest.Small()
		require.Contains(t, otherValues, key)
		value, also, _ := strings.Cut(otherValues[key], " with ")
		require.NoError(t, c.Override(key+"="+value), key)
		for _, other := range strings.Fields(also) {
			require.NoError(t, c.Override(other), key)
		}
		run := func(handled ...string) error {
			tr, _ := traintest.Trainer(t, c, traintest.Guesser(), &traintest.Arena{})
			tr.Handled = handled
			return tr.Run(t.Context())
		}
		err := run()
		require.ErrorIs(t, err, config.ErrConfig, key)
		require.ErrorContains(t, err, "a Trainer does not honour", key)
		require.ErrorContains(t, err, key)
		require.ErrorContains(t, err, "use train/run.Open, or list them in Trainer.Handled")
		require.NotContains(t, fmt.Sprint(run(key)), key+",", key)
		all := fmt.Sprint(run(train.OuterKeys()...))
		require.NotContains(t, all, "does not honour", key)
	}
}

// TestAllUnhandledKeysAreListed in one error, without those of handled groups.
func TestAllUnhandledKeysAreListed(t *testing.T) {
	c := traintest.Small()
	c.Model.BFloat16, c.Trainer.Project, c.Trainer.SaveFreq = true, "p", 2
	tr, _ := traintest.Trainer(t, c, traintest.Guesser(), &traintest.Arena{})
	require.ErrorContains(t, tr.Run(t.Context()),
		"does not honour model.bfloat16, trainer.project_name, trainer.save_freq: use")
	tr.Handled, tr.Checkpointer = []string{"model."}, traintest.Hooks{}
	require.ErrorContains(t, tr.Run(t.Context()), "does not honour trainer.project_name: use")
	tr.Handled = append(tr.Handled, "trainer.project_name")
	require.NoError(t, tr.Run(t.Context()))
	tr.Handled = append(tr.Handled, "trainer.projekt_name")
	require.ErrorContains(t, tr.Run(t.Context()), `Trainer.Handled: "trainer.projekt_name"`)
}

// TestARollbackNeedsACheckpointerThatRollsBack before the first step.
func TestARollbackNeedsACheckpointerThatRollsBack(t *testing.T) {
	c := traintest.Small()
	c.Stability.Spike.Metric, c.Stability.Spike.Action, c.Trainer.SaveFreq = "actor/grad_norm", "rollback", 1
	tr, j := traintest.Trainer(t, c, traintest.Guesser(), &traintest.Arena{})
	for _, without := range []train.Checkpointer{nil, struct{ train.Checkpointer }{traintest.Hooks{}}} {
		tr.Checkpointer = without
		require.ErrorContains(t, tr.Run(t.Context()), "stability.spike.action is rollback")
		require.Empty(t, *j)
	}
	tr.Checkpointer = traintest.Hooks{}
	require.NoError(t, tr.Run(t.Context()))
}
