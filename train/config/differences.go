package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"vagen/internal/redact"
	"vagen/internal/settings"
)

// freeKeys may differ when a run resumes: they change no result.
var freeKeys = []string{
	"actor_rollout_ref.actor.fsdp_config.optimizer_offload", "actor_rollout_ref.ref.fsdp_config.param_offload", "critic.model.fsdp_config.optimizer_offload",
	"critic.model.fsdp_config.param_offload", "model.shard_weights", "model.compile_cache",
	"model.node_id", "model.coordinator", "model.node_address", "model.node_key_env", "model.node_timeout", "model.node_tls_ca", "model.node_tls_cert", "model.node_tls_key",
	"run.workers", "run.queue", "run.queue_options.name", "run.queue_options.listen", "run.queue_options.lease", "run.queue_options.no_worker_timeout", "run.queue_options.sync",
	"run.queue_options.creds", "run.queue_options.user", "run.queue_options.key_env", "run.queue_options.tls_ca", "run.queue_options.tls_cert",
	"run.queue_options.tls_key", "trainer.logger", "trainer.prometheus_address", "trainer.resume_mode", "trainer.resume_from_path", "trainer.allow_config_change", "trainer.default_local_dir",
	"trainer.project_name", "trainer.experiment_name", "trainer.remove_previous_ckpt_in_save",
	"trainer.max_actor_ckpt_to_keep", "trainer.max_critic_ckpt_to_keep", "trainer.save_on_interrupt",
	"trainer.log_val_generations", "trainer.val_log_select", "trainer.val_log_success_ratio", "trainer.log_image.max_pending", "trainer.rollout_data_scores",
	"huggingface_hub.hf_save_freq", "huggingface_hub.upload_contents", "huggingface_hub.repo_id", "huggingface_hub.private",
}

// deviceKeys may differ between configurations that divide their work as for several devices.
var deviceKeys = []string{"model.devices", "model.num_nodes", "model.same_bytes", "trainer.n_gpus_per_node"}

// divided reports whether work is divided into eight parts on any machine.
func (c *Config) divided() bool {
	return (c.Model.SameBytes || c.Model.Devices > 1 || c.Model.Nodes > 1) && !c.Model.PerDevice
}

// Differences lists the keys in which two configurations differ, as lines
// "key: old → new" in the order of the keys. Secrets are neither compared nor shown.
func Differences(old, new *Config) []string {
	var lines []string
	divided := old.divided() && new.divided()
	before, after := SafeKeys(old), SafeKeys(new)
	for i, k := range before {
		was, is := ValueText(k.Value), ValueText(after[i].Value)
		if empty := []string{"null", "{}"}; slices.Contains(empty, was) && slices.Contains(empty, is) { // maps, which files have as {}
			continue
		}
		if was != is && !slices.Contains(freeKeys, k.Path) && !(divided && slices.Contains(deviceKeys, k.Path)) {
			lines = append(lines, fmt.Sprintf("%s: %s → %s", k.Path, was, is))
		}
	}
	return lines
}

// SafeKeys lists the settings of a configuration with secrets redacted.
func SafeKeys(c *Config) []settings.Key {
	keys := settings.Keys(c)
	for i := range keys {
		keys[i].Value = safeValue(keys[i])
	}
	return keys
}

// safeValue returns a setting's value with secrets redacted.
func safeValue(k settings.Key) any {
	return redact.Value(k.Path[strings.LastIndexByte(k.Path, '.')+1:], k.Value)
}

// valueText returns a setting's value on one line, as YAML.
func valueText(v any) string {
	text, err := settings.Text(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return text
}

// ValueText returns a setting's value on one line.
func ValueText(value any) string {
	raw, err := json.Marshal(value)
	if err != nil { // no JSON form
		return fmt.Sprint(value)
	}
	return string(raw)
}
