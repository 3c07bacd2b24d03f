package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/tinymodel"
	"vagen/policy/vlm"
)

func TestNodesOfTheCommandAreChecked(t *testing.T) {
	dir := t.TempDir()
	config := divisible(t, dir)
	for says, overrides := range map[string][]string{
		"model.num_nodes is 3, must be 1, 2, 4 or 8": {
			"model.num_nodes=3"},
		"together at most 8 devices are allowed": {
			"model.num_nodes=4", "model.devices=4"},
		"trainer.stage is sft+rl, but model.num_nodes is 2": {
			"model.num_nodes=2", "trainer.stage=sft+rl"},
		"model.num_nodes is 2: bad configuration: vlm: bad option: Nodes.Count is 2: mpi: MPI is unavailable: this p": {
			"model.num_nodes=2"},
	} {
		c, said := command(t, dir, append([]string{"train", config, "--out", "refused"}, overrides...)...)
		require.Error(t, c.Run(), says)
		require.Equal(t, 2, c.ProcessState.ExitCode(), "%s", said)
		require.Contains(t, said.String(), says)
	}
	require.NoDirExists(t, dir+"/refused")
}

// divisible writes a model and the configuration of a run whose bytes do not depend on the number of
// devices.
func divisible(t *testing.T, dir string) (config string) {
	t.Helper()
	shape := vlm.Small() // with several rows of several layers, but no larger: the size changes no order
	shape.Layers, shape.Hidden, shape.FF, shape.Heads = 2, 32, 64, 2
	shape.VisionHidden, shape.VisionFF, shape.VisionHeads = 32, 64, 1
	model := tinymodel.Create(t, shape, tinymodel.Tags, 1)
	config = filepath.Join(dir, "run.yaml")
	testkit.Write(t, config, `
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
`)
	return config
}
