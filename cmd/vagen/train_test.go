package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/policy/vlm"
)

// setup writes a tiny model and a configuration that trains it for a step.
func setup(t *testing.T) (config, out string) {
	t.Helper()
	dir := t.TempDir()
	shape := vlm.Small()
	shape.Layers, shape.Hidden = 1, 32
	model := filepath.Join(dir, "model")
	require.NoError(t, vlm.Create(model, shape, []string{"<think>", "</think>", "<answer>", "</answer>", "Left", "Up"}, 1))
	config = filepath.Join(dir, "run.yaml")
	require.NoError(t, os.WriteFile(config, []byte(`
env: {name: frozenlake, config: {render_mode: text, prompt: brief, size: 2}}
model: {backend: go, cache_tokens: 256, micro_tokens: 512}
actor_rollout_ref:
  model: {path: `+model+`}
  actor: {ppo_mini_batch_size: 2}
critic: {kind: shared}
data: {train_batch_size: 2, val_batch_size: 2, max_response_length: 4}
rollout_manager: {max_turns: 1}
trainer: {total_training_steps: 1, log_val_generations: 1}
`), 0o644))
	return config, filepath.Join(dir, "out")
}

func TestTrainingWritesARunFolder(t *testing.T) {
	config, out := setup(t)
	require.Contains(t, succeed(t, "train", config, "--out", out, "--dry-run"), "can be trained: 1 steps on frozenlake")
	require.NoDirExists(t, out)

	text := succeed(t, "train", config, "run.seed=3", "--out", out, "--log", "warn")
	require.Contains(t, text, "results in "+out)
	require.Contains(t, text, "success: before ")
	for _, name := range []string{"config.yaml", "metrics.jsonl", "curve.png", "checkpoints/step_1/actor/config.json", "episodes/step_1/episode_0.json"} {
		require.FileExists(t, filepath.Join(out, name))
	}
	raw, err := os.ReadFile(filepath.Join(out, "config.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(raw), "seed: 3\n")

	code, _, errs := run(t, "", "train", config, "--out", out, "run.seed=3", "trainer.resume_mode=disable")
	require.Equal(t, cli.Failed, code)
	require.Contains(t, errs, "already holds a run")
	code, _, errs = run(t, "", "train", config, "--out", out)
	require.Equal(t, cli.Failed, code)
	require.Contains(t, errs, "run.seed: 3 → 0")
}

// What a run leaves that is begun again is what it left, up to the times that its
// steps took.
func TestTrainingGoesOn(t *testing.T) {
	config, out := setup(t)
	args := []string{"train", config, "trainer.total_training_steps=2", "trainer.save_freq=1", "trainer.max_actor_ckpt_to_keep=2", "--log", "warn", "--out"}
	whole := out + "-whole"
	succeed(t, append(args, whole)...)
	succeed(t, append(args, out)...)
	weights := "checkpoints/step_2/actor/model.safetensors"
	require.Equal(t, contents(t, filepath.Join(whole, weights)), contents(t, filepath.Join(out, weights)))

	require.NoError(t, os.RemoveAll(filepath.Join(out, "checkpoints/step_2")))
	require.Contains(t, succeed(t, append(args, out)...), "going on after step 1\n")
	require.Equal(t, contents(t, filepath.Join(whole, weights)), contents(t, filepath.Join(out, weights)))
	require.Equal(t, strings.Count(contents(t, filepath.Join(whole, "metrics.jsonl")), "\n"), strings.Count(contents(t, filepath.Join(out, "metrics.jsonl")), "\n"))

	code, _, errs := run(t, "", append(args, out, "--resume", "algorithm.gamma=0.5")...)
	require.Equal(t, cli.Failed, code)
	require.Contains(t, errs, "algorithm.gamma: 1 → 0.5")
	code, _, errs = run(t, "", append(args, out+"-none", "--resume")...)
	require.Equal(t, cli.Failed, code)
	require.Contains(t, errs, "there is no run in")
}

// TestTrainingExportsThePolicy: with adapters the model with them merged in, which
// opens as it is, and the adapters alone.
func TestTrainingExportsThePolicy(t *testing.T) {
	config, out := setup(t)
	args := []string{"train", config, "--log", "error", "--out", out, "trainer.total_training_steps=3", "trainer.save_freq=1", "huggingface_hub.hf_save_freq=2",
		"actor_rollout_ref.model.lora_rank=2", "huggingface_hub.upload_contents=[hf_model, adapter]"}
	succeed(t, args...)
	require.Equal(t, []string{"step_2", "step_3"}, list(t, filepath.Join(out, "hf")))
	folder := filepath.Join(out, "hf", "step_3")
	require.Equal(t, []string{"adapter", "hf_model"}, list(t, folder))
	require.True(t, contents(t, filepath.Join(out, "checkpoints/step_3/actor/adapter_model.safetensors")) == contents(t, filepath.Join(folder, "adapter/adapter_model.safetensors")))
	m, err := vlm.Open(t.Context(), filepath.Join(folder, "hf_model"), vlm.Options{Backend: "go"})
	require.NoError(t, err)
	m.Close()

	config, out = setup(t)
	succeed(t, "train", config, "--log", "error", "--out", out, "trainer.save_freq=1", "huggingface_hub.hf_save_freq=1", "trainer.save_best_actor=true")
	require.True(t, contents(t, filepath.Join(out, "checkpoints/step_1/actor/model.safetensors")) == contents(t, filepath.Join(out, "hf/step_1/hf_model/model.safetensors")))
	for _, folder := range []string{"hf/step_1/hf_model", "best_actor"} {
		m, err := vlm.Open(t.Context(), filepath.Join(out, folder), vlm.Options{Backend: "go"})
		require.NoError(t, err, folder)
		m.Close()
	}
}

func contents(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(raw)
}

func TestTrainingIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	config, out := setup(t)
	for want, args := range map[string][]string{
		`did you mean "frozenlake"?`:              {"env.name=frozenlak"},
		`did you mean "size"?`:                    {"env.config.sise=3"},
		"actor_rollout_ref.model.path is empty":   {"actor_rollout_ref.model.path=''"},
		"/none is not a folder with a model":      {"actor_rollout_ref.model.path=/none"},
		"critic.model.path: /none":                {"critic.model.path=/none", "critic.kind=separate"},
		`did you mean "algorithm.adv_estimator"?`: {"algorithm.adv_estimater=gae"},
		"algorithm.gamma is 3, must be in [0, 1]": {"algorithm.gamma=3"},
	} {
		for _, flags := range [][]string{{"--dry-run"}, {"--out", out}} {
			errs := refuse(t, append(append([]string{"train", config}, args...), flags...)...)
			require.Contains(t, errs, want)
			require.NoDirExists(t, out)
		}
	}
	require.Contains(t, refuse(t, "train", "none.yaml"), "none.yaml")
}
