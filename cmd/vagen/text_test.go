package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/tinymodel"
	"vagen/policy/vlm"
)

// TestTextModelsTrainWithTheSameCommand: a text-only model, on a file of environments
// that show text, with a preset.
func TestTextModelsTrainWithTheSameCommand(t *testing.T) {
	dir := t.TempDir()
	shape := vlm.Shape{Family: "llama", Hidden: 32, FF: 64, Layers: 1, Heads: 2, KVHeads: 1, HeadDim: 16, RopeTheta: 10000,
		MaxPositions: 1024}
	model := tinymodel.Create(t, shape, tinymodel.Tags, 1)
	envs := testkit.File(t, "envs.yaml",
		"envs: [{name: FrozenLake, n_envs: 4, seed: [1, 99, 1], max_turns: 1, response_length_per_turn: 4, config: {render_mode: text, prompt: brief, size: 2}}]")
	out := filepath.Join(dir, "out")
	text := succeed(t, "train", "--preset", "lite_ppo", "--out", out, "--log", "warn",
		"data.train_files="+envs, "data.val_files="+envs, "data.train_batch_size=2", "trainer.total_training_steps=null",
		"trainer.total_epochs=1",
		"actor_rollout_ref.model.path="+model, "actor_rollout_ref.actor.ppo_mini_batch_size=2", "critic.kind=shared",
		"data.max_prompt_length=0", "rollout_manager.max_trajectory_length=0", "model.backend=go", "model.cache_tokens=256")
	require.Contains(t, text, "success: before ")
	require.FileExists(t, filepath.Join(out, "checkpoints/step_2/actor/model.safetensors"))
}
