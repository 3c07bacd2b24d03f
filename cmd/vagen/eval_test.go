package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/internal/testkit"
	"vagen/rollout/evaluate"
	"vagen/train/config"
)

// answers is an OpenAI-compatible service that answers Right or Down, depending on the
// request, and fails after a number of requests.
type answers struct {
	asked atomic.Int64
	until atomic.Int64 // number of requests before it fails; 0 is no limit
	mute  atomic.Bool  // it refuses to answer
}

func (s *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n, until := s.asked.Add(1), s.until.Load(); until > 0 && n > until {
		http.Error(w, `{"error":{"message":"no credit","code":"insufficient_quota"}}`, http.StatusPaymentRequired)
		return
	}
	var in struct {
		Messages []json.RawMessage `json:"messages"`
		Seed     int64             `json:"seed"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		http.Error(w, "{}", http.StatusBadRequest)
		return
	}
	if s.mute.Load() {
		fmt.Fprint(w, `{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}`)
		return
	}
	move := []string{"Right", "Down"}[in.Seed%2]
	fmt.Fprintf(w, `{"choices":[{"message":{"content":"<think>-</think><answer>%s,%s</answer>"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":5}}`, move, move, 100*len(in.Messages))
}

// evalSetup writes an evaluation configuration with a service as backend.
func evalSetup(t *testing.T, s *answers) (config, out string) {
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	dir := t.TempDir()
	config = filepath.Join(dir, "eval.yaml")
	testkit.Write(t, config, `
envs:
  - {name: FrozenLake, n_envs: 12, tag_id: lake, seed: [1, 100, 1], max_turns: 3, response_length_per_turn: 32, config: {render_mode: text, size: 2}}
experiment: {dump_dir: out}
run: {backend: sglang, max_concurrent_jobs: 4}
backends:
  sglang: {base_url: "`+h.URL+`/v1", model: served, price: {prompt: 1, completion: 10}}
`)
	return config, filepath.Join(dir, "out")
}

func TestAnInterruptedEvaluationOfAServiceResumes(t *testing.T) {
	flaky := &answers{}
	flaky.until.Store(15)
	config, out := evalSetup(t, flaky)
	prints(t, "openai served, results in "+out, "eval", config, "--dry-run")
	require.NoDirExists(t, out)
	require.Zero(t, flaky.asked.Load())

	fail(t, "no credit", "eval", config)
	kept, err := filepath.Glob(filepath.Join(out, "tag_lake", "vagen-*", "result.json"))
	require.NoError(t, err)
	require.NotEmpty(t, kept)
	require.Less(t, len(kept), 12)

	flaky.until.Store(0)
	r := decoded[evaluate.Report](t, "eval", config, "--format", "json", "--log", "error")
	require.Len(t, r.Rows, 1)
	require.Equal(t, []int{12, 0}, []int{r.Rows[0].Episodes, r.Rows[0].Unusable})
	require.Positive(t, r.Rows[0].TotalCost)
	require.Positive(t, r.Rows[0].Success.Mean)
	before := flaky.asked.Load()
	md := succeed(t, "eval", config, "--format", "markdown", "--log", "error")
	require.Equal(t, before, flaky.asked.Load(), "nothing is missing")
	require.Contains(t, md, "| lake | served | 12 | 0 |")
	require.Equal(t, md, testkit.Text(t, filepath.Join(out, "summary.md")))

	refuse(t, "there are no environments", "eval", config, "envs=[]")
	require.Contains(t, fail(t, "", "eval", config, "default_chat_config.max_tokens=7", "run.seed=2", "--log", "error"),
		"force_rerun", "other settings under the same tag")
	stops(t, "with another model", "eval", config, "backends.sglang.extra={a: 1}", "--dry-run")
	_, _, errs := launchRun(t, "", "eval", config, "backends.sglang.max_concurrency=2")
	require.Contains(t, errs, `msg="episodes have results already" done=12 of=12`)
}

func TestAnEvaluationWithoutUsableEpisodesFails(t *testing.T) {
	s := &answers{}
	s.mute.Store(true)
	config, out := evalSetup(t, s)
	code, shown, errs := launchRun(t, "", "eval", config, "--log", "error")
	require.Equal(t, cli.Failed, code, shown)
	require.Contains(t, errs, "nothing was evaluated")
	require.Contains(t, shown, "12 policy_error")
	require.FileExists(t, filepath.Join(out, "summary.txt"))
}

// TestAnEvaluationFailsIfAllNewEpisodesFail, even if there are older results.
func TestAnEvaluationFailsIfAllNewEpisodesFail(t *testing.T) {
	s := &answers{}
	s.until.Store(15)
	config, _ := evalSetup(t, s)
	fail(t, "", "eval", config, "--log", "error")
	s.until.Store(0)
	s.mute.Store(true)
	code, shown, errs := launchRun(t, "", "eval", config, "--log", "error")
	require.Equal(t, cli.Failed, code, shown)
	require.Contains(t, errs, "played episodes can be used")
	require.NotContains(t, shown, "12 policy_error", "older results are in the table")
}

// TestEvaluationOfARunIsItsValidation: the numbers of vagen eval equal those that
// training wrote, also if the checkpoint contains only adapters.
func TestEvaluationOfARunIsItsValidation(t *testing.T) {
	t.Run("weights", func(t *testing.T) { evaluated(t) })
	t.Run("adapters", func(t *testing.T) { evaluated(t, "actor_rollout_ref.model.lora_rank=2") })
}

func evaluated(t *testing.T, more ...string) {
	config, out := setup(t)
	args := append([]string{config, "data.val_batch_size=6", "rollout_manager.max_turns=2", "data.max_response_length=6"},
		more...)
	succeed(t, append([]string{"train", "--out", out, "--log", "warn"}, args...)...)
	var last map[string]any
	for line := range strings.Lines(testkit.Text(t, filepath.Join(out, "metrics.jsonl"))) {
		m := testkit.JSON[map[string]any](t, line)
		if m["kind"] == "validate" {
			last = m
		}
	}
	actor := "actor_rollout_ref.model.path=" + filepath.Join(out, "checkpoints", "step_1", "actor")
	var r evaluate.Report
	eval := append(append([]string{"eval", "--format", "json", "--log", "error", "--out", out + "-eval"}, args...), actor)
	if len(more) > 0 { // the weights may be those of either number of stages
		eval = append(eval, "trainer.stage=sft+rl", "sft.lessons.teacher=shortest_path")
	}
	require.Regexp(t, `val +frozenlake +6 +6\n`, succeed(t, append(eval, "--dry-run")...))
	text := succeed(t, eval...)
	require.Regexp(t, `val +frozenlake +6 +0\n`, succeed(t, append(eval, "--dry-run")...),
		"finished episodes are not missing")
	best := strings.TrimPrefix(actor, "actor_rollout_ref.model.path=")
	weights, err := filepath.Glob(filepath.Join(best, "*.safetensors"))
	require.NoError(t, err)
	raw := testkit.Read(t, weights[0])
	raw[len(raw)-1] ^= 1
	testkit.Write(t, weights[0], raw)
	stops(t, "with another model", append(eval, "--dry-run")...) // other weights in the same folder
	require.NoError(t, json.Unmarshal([]byte(text), &r))
	row := r.Rows[0]
	require.InDelta(t, last["val/success"], row.Success.Mean, 0)
	require.InDelta(t, last["val/turns"], row.Turns.Mean, 1e-12)
	require.InDelta(t, last["val/response_tokens"], row.ResponseTokens.Mean*float64(row.Success.N), 1e-9)
	require.InDelta(t, last["val/context_tokens"], row.PromptTokens.Mean*float64(row.Success.N), 1e-9)
	require.InDelta(t, last["val/episodes"], row.Episodes, 0)
}

// TestAnEvaluationOfARunClosesItsEnvironments, also one that only shows what would be played.
func TestAnEvaluationOfARunClosesItsEnvironments(t *testing.T) {
	config, out := setup(t)
	o := evalOptions{out: out}
	e, err := o.prepare(t.Context(), &cli.Call{Args: []string{config}, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	closed := 0
	e.envs.OnClose(func() error { closed++; return nil })
	require.NoError(t, e.close())
	require.Equal(t, 1, closed)
}

// TestAnEvaluationOfARunNotesWhatItDoesNotUse: the queue and the servers of training.
func TestAnEvaluationOfARunNotesWhatItDoesNotUse(t *testing.T) {
	config, out := setup(t)
	code, _, errs := launchRun(t, "", "eval", config, "--out", out, "--dry-run", "critic.kind=none",
		"algorithm.adv_estimator=masked_grpo", "rollout_manager.n_trajectory=2",
		"run.queue=nats://h:1", "actor_rollout_ref.rollout.name=vllm",
		"actor_rollout_ref.rollout.engine.addresses=[http://h:2]", "actor_rollout_ref.rollout.engine.sync_dir="+t.TempDir())
	require.Equal(t, cli.OK, code, errs)
	require.Contains(t, errs, "run.queue and run.queue_options: no effect")
	require.Contains(t, errs, "actor_rollout_ref.rollout.engine: no effect")
	code, _, errs = launchRun(t, "", "eval", config, "--out", out, "--dry-run")
	require.Equal(t, cli.OK, code, errs)
	require.NotContains(t, errs, "run.queue")
}

func TestEvaluationsExplainTheirKeys(t *testing.T) {
	text := succeed(t, "eval", "--explain")
	for _, key := range []string{"run.max_concurrent_jobs", "backends.NAME.requests_per_minute",
		"default_chat_config.temperature", "experiment.dump_dir"} {
		require.Contains(t, text, key)
	}
	refuse(t, "", "eval")
	refuse(t, "no such file", "eval", filepath.Join(t.TempDir(), "none.yaml"))
}

// TestResultsBelongToThePolicyThatWroteThem: rounded weights and another prompt are another policy.
func TestResultsBelongToThePolicyThatWroteThem(t *testing.T) {
	plain, rounded, silent := config.Default(), config.Default(), config.Default()
	rounded.Model.RolloutDType = "int8"
	silent.Data.Template = map[string]any{"enable_thinking": false}
	seen := map[string]bool{}
	for _, c := range []config.Config{plain, rounded, silent} {
		seen[identity("sum", &c)] = true
	}
	require.Len(t, seen, 3)
	require.Contains(t, seen, "sumfalse", "results stored before still count")
}
