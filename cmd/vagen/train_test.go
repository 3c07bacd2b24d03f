package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/internal/testkit"
	"vagen/internal/tinymodel"
	"vagen/policy/vlm"
)

// setup writes a tiny model and a configuration that trains it for one step.
func setup(t *testing.T) (config, out string) {
	t.Helper()
	dir := t.TempDir()
	shape := vlm.Small()
	shape.Layers, shape.Hidden = 1, 32
	model := filepath.Join(dir, "model")
	require.NoError(t, vlm.Create(model, shape, tinymodel.Tags, 1))
	config = filepath.Join(dir, "run.yaml")
	testkit.Write(t, config, `
env: {name: frozenlake, config: {render_mode: text, prompt: brief, size: 2}}
model: {backend: go, cache_tokens: 256, micro_tokens: 512}
actor_rollout_ref:
  model: {path: `+model+`}
  actor: {ppo_mini_batch_size: 2}
critic: {kind: shared}
data: {train_batch_size: 2, val_batch_size: 2, max_response_length: 4}
rollout_manager: {max_turns: 1}
trainer: {total_training_steps: 1, log_val_generations: 1}
`)
	return config, filepath.Join(dir, "out")
}

func TestTrainingWritesARunFolder(t *testing.T) {
	config, out := setup(t)
	prints(t, "can be trained: 1 steps on frozenlake", "train", config, "--out", out, "--dry-run")
	require.NoDirExists(t, out)
	require.Regexp(t, `(?m)^memory plan: \d+MB at the peak: weights \d+MB, .*program \d+MB, heap \d+MB`,
		succeed(t, "train", config, "--out", out, "--dry-run"))

	text := succeed(t, "train", config, "run.seed=3", "--out", out, "--log", "warn")
	require.Contains(t, text, "results in "+out)
	require.Contains(t, text, "success: before ")
	for _, name := range []string{"config.yaml", "metrics.jsonl", "curve.png", "checkpoints/step_1/actor/config.json",
		"episodes/step_1/episode_0.json"} {
		require.FileExists(t, filepath.Join(out, name))
	}
	require.Contains(t, testkit.Text(t, filepath.Join(out, "config.yaml")), "seed: 3\n")
}

// TestAFinishedRunCanBeExtended with more steps and nothing else; --resume needs a run that can go on.
func TestAFinishedRunCanBeExtended(t *testing.T) {
	config, out := setup(t)
	args := []string{"train", config, "trainer.total_training_steps=2", "trainer.save_freq=1",
		"trainer.max_actor_ckpt_to_keep=2",
		"--log", "warn", "--out"}
	succeed(t, append(args, out)...)
	prints(t, "resuming after step 2\n", append(args, out, "trainer.total_training_steps=3")...)
	require.FileExists(t, filepath.Join(out, "checkpoints/step_3/actor/model.safetensors"))
	fail(t, "steps: the run has done 3, which is more than 2", append(args, out, "--resume")...)
	fail(t, "algorithm.gamma: 1 → 0.5", append(args, out, "--resume", "trainer.total_training_steps=3",
		"algorithm.gamma=0.5")...)
	fail(t, "no run in", append(args, out+"-none", "--resume")...)
}

// TestTrainingExportsThePolicy: with adapters, both the merged model, which can be
// opened without them, and the adapters alone.
func TestTrainingExportsThePolicy(t *testing.T) {
	config, out := setup(t)
	args := []string{"train", config, "--log", "error", "--out", out, "trainer.total_training_steps=3",
		"trainer.save_freq=1", "huggingface_hub.hf_save_freq=2",
		"actor_rollout_ref.model.lora_rank=2", "huggingface_hub.upload_contents=[hf_model, adapter]"}
	succeed(t, args...)
	require.Equal(t, []string{"step_2", "step_3"}, list(t, filepath.Join(out, "hf")))
	folder := filepath.Join(out, "hf", "step_3")
	require.Equal(t, []string{"adapter", "hf_model"}, list(t, folder))
	equalFiles(t, filepath.Join(out, "checkpoints/step_3/actor/adapter_model.safetensors"),
		filepath.Join(folder, "adapter/adapter_model.safetensors"))
	m, err := vlm.Open(t.Context(), filepath.Join(folder, "hf_model"), vlm.Options{Backend: "go"})
	require.NoError(t, err)
	m.Close()

	config, out = setup(t)
	succeed(t, "train", config, "--log", "error", "--out", out, "trainer.save_freq=1", "huggingface_hub.hf_save_freq=1",
		"trainer.save_best_actor=true")
	equalFiles(t, filepath.Join(out, "checkpoints/step_1/actor/model.safetensors"),
		filepath.Join(out, "hf/step_1/hf_model/model.safetensors"))
	for _, folder := range []string{"hf/step_1/hf_model", "best_actor"} {
		m, err := vlm.Open(t.Context(), filepath.Join(out, folder), vlm.Options{Backend: "go"})
		require.NoError(t, err, folder)
		m.Close()
	}
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
			refuse(t, want, append(append([]string{"train", config}, args...), flags...)...)
			require.NoDirExists(t, out)
		}
	}
	refuse(t, "none.yaml", "train", "none.yaml")
}

// TestTheMemoryPlanIsLoggedFirst, before the first validation.
func TestTheMemoryPlanIsLoggedFirst(t *testing.T) {
	config, out := setup(t)
	var both lockedBuffer
	code := cli.Main(t.Context(), program(), cli.Streams{
		In: strings.NewReader(""), Out: &both, Err: &both,
	}, []string{"train", config, "--out", out})
	require.Zero(t, code, both.text.String())
	plan, validated := strings.Index(both.text.String(), "memory plan of the run"),
		strings.Index(both.text.String(), "validation after step 0")
	require.Positive(t, plan)
	require.Greater(t, validated, plan)
}

// lockedBuffer is a buffer that several goroutines may write to.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// TestTrainingUploadsWhatItExports to a hub that accepts all files, and to one that
// refuses all.
func TestTrainingUploadsWhatItExports(t *testing.T) {
	config, out := setup(t)
	args := []string{"train", config, "--log", "warn", "--out", out, "trainer.total_training_steps=2",
		"trainer.save_freq=1",
		"huggingface_hub.hf_save_freq=1", "huggingface_hub.repo_id=o/n"}
	c, said := command(t, t.TempDir(), args...)
	c.Env = append(c.Env, "HF_TOKEN=")
	require.Error(t, c.Run())
	require.Equal(t, cli.Usage, c.ProcessState.ExitCode())
	require.Contains(t, said.String(), "huggingface_hub.repo_id: the environment has no HF_TOKEN")
	require.NoDirExists(t, out)

	var mu sync.Mutex
	var commits []string
	works := http.NewServeMux()
	works.HandleFunc("POST /api/repos/create", func(http.ResponseWriter, *http.Request) {})
	works.HandleFunc("POST /api/models/o/n/preupload/main", func(w http.ResponseWriter, r *http.Request) {
		var ask struct{ Files []map[string]any }
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&ask))
		for _, f := range ask.Files {
			f["uploadMode"] = "regular"
		}
		assert.NoError(t, json.NewEncoder(w).Encode(map[string]any{"files": ask.Files}))
	})
	works.HandleFunc("POST /api/models/o/n/commit/main", func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		commits = append(commits, string(raw))
		fmt.Fprint(w, `{"commitUrl": "here"}`)
	})
	hub := httptest.NewServer(works)
	defer hub.Close()
	c, said = command(t, t.TempDir(), args...)
	c.Env = append(c.Env, "HF_TOKEN=secret", "HF_ENDPOINT="+hub.URL)
	require.NoError(t, c.Run(), said.String())
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, commits, 2)
	require.Contains(t, commits[1], `"summary":"hf_model of step 2"`)
	weights := base64.StdEncoding.EncodeToString(testkit.Read(t,
		filepath.Join(out, "hf/step_2/hf_model/model.safetensors")))
	require.True(t, strings.Contains(commits[1], `"path":"model.safetensors"`) && strings.Contains(commits[1], weights))

	down := httptest.NewServer(http.NotFoundHandler())
	defer down.Close()
	_, out = setup(t)
	args[slices.Index(args, "--out")+1] = out
	c, said = command(t, t.TempDir(), args...)
	c.Env = append(c.Env, "HF_TOKEN=secret", "HF_ENDPOINT="+down.URL)
	require.Error(t, c.Run())
	require.Equal(t, cli.Failed, c.ProcessState.ExitCode())
	require.Equal(t, 2, strings.Count(said.String(), "upload failed"))
	require.Contains(t, said.String(), "upload of the last export")
	require.NotContains(t, said.String(), "secret")
	require.FileExists(t, filepath.Join(out, "checkpoints/step_2/state.json"), "the run itself is complete")
}
