package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/vlm"
)

// TestDevicesChangeNoByteOfARun trains a small vision model with the command on one, two and four devices.
// All files of the runs have the same bytes, except those that say how many devices there were. A run that
// resumes on four devices from a checkpoint of one ends with the same weights and moments.
func TestDevicesChangeNoByteOfARun(t *testing.T) {
	dir := t.TempDir()
	config := divisible(t, dir)
	trained := func(name string, overrides ...string) map[string]string {
		c, said := command(t, dir, append([]string{"train", config, "--log", "warn", "--out", name}, overrides...)...)
		require.NoError(t, c.Run(), said.String())
		return undivided(t, filepath.Join(dir, name))
	}
	want := trained("one")
	requireTrained(t, want)
	requireSame(t, want, trained("two", "model.devices=2"), "two devices")
	got := trained("four", "model.devices=4", "model.shard_weights=true",
		"actor_rollout_ref.ref.fsdp_config.param_offload=true", "trainer.resume_mode=resume_path",
		"trainer.resume_from_path=one/checkpoints/step_1")
	requireSameState(t, want, got, "four devices with divided weights")
}

// divisible writes a model and the configuration of a run whose bytes do not depend on the number of
// devices.
func divisible(t *testing.T, dir string) (config string) {
	t.Helper()
	model := filepath.Join(dir, "model")
	shape := vlm.Small() // with several rows of several layers, but no larger: the size changes no order
	shape.Layers, shape.Hidden, shape.FF, shape.Heads = 2, 32, 64, 2
	shape.VisionHidden, shape.VisionFF, shape.VisionHeads = 32, 64, 1
	require.NoError(
		t, vlm.Create(model, shape, []string{"<think>", "</think>", "<answer>", "</answer>", "Left", "Up"}, 1),
	)
	config = filepath.Join(dir, "run.yaml")
	require.NoError(t, os.WriteFile(config, []byte(`
env: {name: frozenlake, config: {render_mode: vision, tile_size: 14, prompt: brief, format_reward: 0.1, turn_cost: 0.2}}
model: {backend: go, cache_tokens: 128, micro_tokens: 128, same_bytes: true}
algorithm: {adv_estimator: bi_level_gae}
actor_rollout_ref:
  model: {path: `+model+`}
  actor: {ppo_mini_batch_size: 8, use_kl_loss: true, optim: {lr: 1e-3}}
critic: {kind: shared}
data: {train_batch_size: 8, val_batch_size: 4, max_response_length: 4}
rollout_manager: {max_turns: 2}
trainer: {total_training_steps: 2, save_freq: 1, test_freq: 1, max_actor_ckpt_to_keep: 2, max_critic_ckpt_to_keep: 2, logger: [console]}
`), 0o644))
	return config
}

// undivided returns the files of a run without those that have the number of devices, or the hash
// of such a file.
func undivided(t *testing.T, run string) map[string]string {
	t.Helper()
	files := leavings(t, run)
	maps.DeleteFunc(files, func(name, _ string) bool {
		return slices.Contains([]string{"config.yaml", "manifest.json"}, filepath.Base(name))
	})
	return files
}

const trainedWeights, trainedMoments = "checkpoints/step_2/actor/model.safetensors",
	"checkpoints/step_2/optimizer/actor.safetensors"

// requireTrained: the second step changes weights.
func requireTrained(t *testing.T, files map[string]string) {
	t.Helper()
	const before = "checkpoints/step_1/actor/model.safetensors"
	require.Contains(t, files, before)
	require.False(t, files[before] == files[trainedWeights], "the second step trains")
}

// requireSameState compares the last weights and moments.
func requireSameState(t *testing.T, want, got map[string]string, about string) {
	t.Helper()
	for _, name := range []string{trainedWeights, trainedMoments} {
		require.Contains(t, want, name)
		require.True(t, want[name] == got[name], "%s differs with %s", name, about)
	}
}
