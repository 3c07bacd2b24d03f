package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/tinymodel"
	"vagen/policy/vlm"
)

// TestADryRunFindsWhatTrainingWouldRefuse in a model's folder, without loading the model.
func TestADryRunFindsWhatTrainingWouldRefuse(t *testing.T) {
	config, out := setup(t)
	good := filepath.Join(filepath.Dir(config), "model")
	for name, c := range map[string]struct {
		harm func(dir string) error
		want string
	}{
		"weights cut short": {func(dir string) error {
			return os.Truncate(filepath.Join(dir, "model.safetensors"), 4000)
		}, "truncated"},
		"no weights": {func(dir string) error {
			return os.Remove(filepath.Join(dir, "model.safetensors"))
		}, "model.safetensors"},
		"other shapes": {func(dir string) error {
			raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
			if err != nil {
				return err
			}
			text := strings.Replace(string(raw), `"num_hidden_layers": 1`, `"num_hidden_layers": 2`, 1)
			require.NotEqual(t, string(raw), text)
			return os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o644)
		}, "is missing"},
		"no tokenizer": {func(dir string) error { return os.Remove(filepath.Join(dir, "tokenizer.json")) }, "tokenizer"},
		"no processor": {func(dir string) error {
			return os.Remove(filepath.Join(dir, "preprocessor_config.json"))
		}, "preprocessor_config.json"},
	} {
		dir := filepath.Join(t.TempDir(), "m")
		require.NoError(t, os.CopyFS(dir, os.DirFS(good)))
		require.NoError(t, c.harm(dir), name)
		for key, args := range map[string][]string{
			"actor_rollout_ref.model.path": nil,
			"critic.model.path":            {"critic.kind=separate"},
		} {
			if key == "critic.model.path" && c.want != "truncated" {
				continue // a critic needs only weights
			}
			args := append([]string{"train", config, key + "=" + dir, "--out", out}, args...)
			for _, flags := range [][]string{{"--dry-run"}, nil} {
				require.Contains(t, refuse(t, "", append(args, flags...)...), c.want, "%s: %s", name, key)
				require.NoDirExists(t, out)
			}
		}
	}
}

// TestADryRunRefusesWhatTheFirstStepWould: limits that start states set, and settings that the
// learner has no part for, are refused without a folder.
func TestADryRunRefusesWhatTheFirstStepWould(t *testing.T) {
	config, _ := setup(t)
	long := testkit.File(t, "envs.yaml",
		"envs:\n  - {name: FrozenLake, n_envs: 4, seed_list: [7, 8, 9, 10], response_length_per_turn: 512, config: {render_mode: text, size: 2}}\n")
	for want, args := range map[string][]string{
		"a response may be longer than the response region: 512 of 200 tokens": {"env.name=''", "data.train_files=" + long,
			"data.val_files=" + long, "data.max_response_length=200", "data.max_prompt_length=1000",
			"rollout_manager.max_trajectory_length=1200"},
		"the response region cannot hold a turn": {"trainer.harness=compact",
			"algorithm.adv_estimator=trajectory_bi_level_gae", "data.max_response_length=8", "trainer.compact_summary_budget=4",
			"data.max_prompt_length=1000", "rollout_manager.max_trajectory_length=1060"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		args = append([]string{"train", config, "--out", out, "--log", "error"}, args...)
		refuse(t, want, append(args, "--dry-run")...)
		require.NoDirExists(t, out)
		stops(t, want, args...) // training refuses it, too
	}
}

// TestADryRunWarnsOfKeysWithoutEffect, and of validation levels that are trained on.
func TestADryRunWarnsOfKeysWithoutEffect(t *testing.T) {
	config, out := setup(t)
	text := succeed(t, "train", config, "--dry-run", "--out", out, "huggingface_hub.repo_id=o/n")
	require.Contains(t, text, "warning: huggingface_hub.repo_id: ")
	require.Contains(t, text, "can be trained")

	envs := func(seeds string) string {
		return testkit.File(t, "envs.yaml", "envs:\n  - {name: FrozenLake, n_envs: 2, seed_list: "+seeds+
			", config: {render_mode: text, size: 2}}\n")
	}
	a, b, apart := envs("[7, 8]"), envs("[8, 9]"), envs("[1, 2]")
	for why, args := range map[string][]string{
		"both from files":        {"env.name=''", "data.train_files=" + a, "data.val_files=" + b},
		"training from env.name": {"data.val_files=" + b, "env.train_seed=7"},
		"":                       {"env.name=''", "data.train_files=" + a, "data.val_files=" + apart},
	} {
		args = append([]string{"train", config, "--dry-run", "--out", out}, args...)
		text := succeed(t, args...)
		if why == "" {
			require.NotContains(t, text, "also trained on")
			continue
		}
		require.Contains(t, text, "validation levels are also trained on: ", why)
		require.Contains(t, text, "frozenlake seed 8", why)
	}
	refuse(t, "overlap training levels", "train", config, "--dry-run", "env.train_seed=0", "env.val_seed=1")
}

// TestImagesNeedAVisionModel: this is checked before anything is loaded or written.
func TestImagesNeedAVisionModel(t *testing.T) {
	config, out := setup(t)
	shape, err := vlm.NamedShape("qwen3-0_6b")
	require.NoError(t, err)
	shape.Layers, shape.Hidden, shape.FF, shape.Heads, shape.KVHeads, shape.HeadDim, shape.Vocab = 1, 16, 16, 1, 1, 16, 300
	blind := tinymodel.Create(t, shape, nil, 1)
	args := []string{"train", config, "actor_rollout_ref.model.path=" + blind, "--out", out}
	require.Contains(t, succeed(t, append(args, "--dry-run")...), "can be trained", "the environment shows text")
	pictures := testkit.File(t, "envs.yaml",
		"envs:\n  - {name: FrozenLake, n_envs: 2, seed_list: [7, 8], config: {render_mode: vision, size: 2}}\n")
	for _, more := range []string{"env.config.render_mode=vision", "data.val_files=" + pictures} {
		for _, flags := range [][]string{{"--dry-run"}, nil} {
			errs := refuse(t, "frozenlake shows images, but the model in "+blind, append(append(args, more),
				flags...)...)
			require.Contains(t, errs, "reads text only")
			require.NoDirExists(t, out)
		}
	}
}

// TestAHubIDIsRefusedWithTheCommandThatDownloadsIt, or with the folder if it has been
// downloaded.
func TestAHubIDIsRefusedWithTheCommandThatDownloadsIt(t *testing.T) {
	config, out := setup(t)
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	args := []string{"train", config, "actor_rollout_ref.model.path=Qwen/Qwen2.5-VL-3B-Instruct", "--out", out}
	errs := refuse(t, "vagen model fetch Qwen/Qwen2.5-VL-3B-Instruct\n", args...)
	require.Contains(t, errs, "set actor_rollout_ref.model.path to the folder that it prints, ")
	require.Contains(t, errs, filepath.Join("Qwen--Qwen2.5-VL-3B-Instruct", "<commit>"))
	require.NoDirExists(t, out)
	require.NotContains(t, refuse(t, "", "train", config, "actor_rollout_ref.model.path=/none"), "model fetch")

	_, root, ok := strings.Cut(errs, "the folder that it prints, ")
	require.True(t, ok)
	root, _, ok = strings.Cut(root, string(filepath.Separator)+"<commit>")
	require.True(t, ok)
	commit := strings.Repeat("a", 40)
	require.NoError(t, os.MkdirAll(filepath.Join(root, commit), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "refs"), 0o755))
	testkit.Write(t, filepath.Join(root, "refs", "main"), commit)
	refuse(t, "has been downloaded: set actor_rollout_ref.model.path="+
		filepath.Join(root, commit), args...)
}

// TestOnlyWhatWasMeasuredIsReported: success rates at the end of training are those of
// validations that ran.
func TestOnlyWhatWasMeasuredIsReported(t *testing.T) {
	for want, args := range map[string][]string{
		"success was not measured: no validation ran\n": {"trainer.val_before_train=false", "trainer.test_freq=0"},
		"success: trained ":                             {"trainer.val_before_train=false"},
		"success: before ":                              {"trainer.test_freq=0"},
	} {
		config, out := setup(t)
		text := succeed(t, append([]string{"train", config, "--out", out, "--log", "error"}, args...)...)
		require.Contains(t, text, want)
		require.NotContains(t, text, "before 0.00, trained 0.00")
		if want == "success: before " {
			require.NotContains(t, text, ", trained ")
		}
	}
}
