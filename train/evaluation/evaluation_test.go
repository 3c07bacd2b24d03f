package evaluation

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/env/dataset"
	"vagen/env/frozenlake"
	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/chat"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/train/config"
)

const evalText = `
fileroot: ${oc.env:NOT_SET,runs}
# a comment refers to nothing: ${oc.env:NOT_SET}
datasets: []
envs:
  - name: FrozenLake
    n_envs: 3
    tag_id: 7
    seed_list: [5, 5, 6]
    max_turns: 4
    response_length_per_turn: 64
    stop_strings: ["</answer>"]
    config: {render_mode: text}
    chat_config: {temperature: 0.7, max_tokens: 1024, top_p: 0.9, top_k: -1}
  - name: frozenlake
    n_envs: 2
    tag_id: packed
    harness: compact
    compact_budget: 400
    config: {render_mode: text}
experiment: {dump_dir: "${fileroot}/x", default_max_turns: 2}
default_chat_config: {max_tokens: 100}
run: {backend: sglang, seed: 3}
backends:
  sglang: {base_url: "http://127.0.0.1:1/v1", api_key: EMPTY, model: m, max_retries: null}
  claude: {model: c}
  local: {model: folder}
`

func evalFile(t *testing.T, text string) string {
	path := testkit.File(t, "eval.yaml", text)
	return path
}

// TestKeysGoToTheServicesThatTheDocumentationNames: with a base_url to blocks that are
// called like the service, and to others only by key_env.
func TestKeysGoToTheServicesThatTheDocumentationNames(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-one")
	t.Setenv("ANTHROPIC_API_KEY", "")
	text := strings.Replace(evalText, `    stop_strings: ["</answer>"]`+"\n", "", 1)
	path := evalFile(t, strings.Replace(text, "backends:\n", `backends:
  openai: {base_url: "http://127.0.0.1:1/v1", model: m}
  mine: {base_url: "http://127.0.0.1:1/v1", model: m, key_env: MY_KEY}
  anthropic: {base_url: "http://127.0.0.1:1/v1", model: m}
`, 1))
	for _, c := range [][]string{
		{"OPENAI_API_KEY", "run.backend=openai"},
		{"OTHER", "run.backend=openai", "backends.openai.key_env=OTHER"},
		{"", "run.backend=openai", "backends.openai.api_key=EMPTY"},
		{"", "run.backend=sglang"},
		{"MY_KEY", "run.backend=mine"},
		{"", "run.backend=anthropic"}, // it is not set
	} {
		e, err := Load(path, c[1:])
		require.NoError(t, err)
		o, err := e.chatOptions(slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		require.Equal(t, c[0], o.KeyEnv, c[1])
	}
}

// TestAnAdaptersModelIsTheOneItNames, or the error says how to specify it.
func TestAnAdaptersModelIsTheOneItNames(t *testing.T) {
	base, adapter := t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		testkit.Write(t, filepath.Join(dir, name), text)
	}
	about := fmt.Sprintf(`{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "base_model_name_or_path": %q}`, base)
	write(adapter, "adapter_config.json", about)
	_, _, err := ModelAt(adapter, "")
	testkit.Error(t, err, config.ErrConfig, "lora_adapter_path")
	write(base, "config.json", "{}")
	model, with, err := ModelAt(adapter, "")
	require.NoError(t, err)
	require.Equal(t, []string{base, adapter}, []string{model, with})
	_, _, err = ModelAt(adapter, "another")
	require.ErrorContains(t, err, "one adapter")
	model, with, err = ModelAt(base, "another")
	require.NoError(t, err)
	require.Equal(t, []string{base, "another"}, []string{model, with})
}

func TestEvaluationsAreReadAsVAGENWritesThem(t *testing.T) {
	path := evalFile(t, evalText)
	e, err := Load(path, []string{"run.max_concurrent_jobs=5"})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(filepath.Dir(path), "runs", "x"), e.Dir())
	require.Equal(t, "openai", e.Backend.API)
	require.Equal(t, 6, e.Backend.Retries, "null leaves the default")
	require.Len(t, e.Tasks, 2)
	one, two := e.Tasks[0], e.Tasks[1]
	require.Equal(t, "7", one.Tag)
	require.Equal(t, policy.Sampling{Temperature: 0.7, TopP: 0.9, MaxTokens: 64, StopStrings: []string{"</answer>"}},
		one.Player.Sampling)
	require.Len(t, one.Episodes, 3)
	for i, ep := range one.Episodes {
		require.Equal(t, i, ep.Group)
		require.Equal(t, []int64{5, 5, 6}[i], ep.Seed)
		require.Equal(t, 4, ep.MaxTurns)
	}
	require.Equal(t, rollout.Compact{Total: 400, Summary: 100}, two.Player.Harness)
	require.Equal(t, []int{2, 5, 100}, []int{two.Player.MaxTurns, two.AtOnce, two.Player.Sampling.MaxTokens})
	require.NotEqual(t, one.Seed, two.Seed)
	require.NotSame(t, one.Context(t.Context()), one.Context(t.Context()), "each episode has a judge's budget of its own")
	require.ErrorContains(t, e.Check(t.Context(), nil), "with an API they must be the same for all tags")

	require.True(t, IsConfig([]byte(evalText)))
	require.False(t, IsConfig([]byte("env: {name: frozenlake}\ntrainer:\n  envs: 3\n")))
	for backend, api := range map[string]string{"claude": "anthropic", "local": "local"} {
		e, err := Load(path, []string{"run.backend=" + backend})
		require.NoError(t, err)
		require.Equal(t, api, e.Backend.API)
	}
}

// TestPoliciesOfOneNameAreToldApart by what requests contain, or by weights; limits of requests are no
// difference.
func TestPoliciesOfOneNameAreToldApart(t *testing.T) {
	path := evalFile(t, evalText)
	dir := filepath.Join(filepath.Dir(path), "folder")
	identity := func(overrides ...string) string {
		e, err := Load(path, overrides)
		require.NoError(t, err)
		s, err := e.Identity(t.Context())
		require.NoError(t, err)
		return s
	}
	const key = "backends.sglang."
	require.Equal(t, identity(), identity(key+"max_concurrency=2", key+"budget=3", key+"price.prompt=1", key+"name=x"))
	for _, other := range []string{"extra={a: 1}", "max_side=64", "template_opens=<think>", "model=n", "omit=[top_k]",
		"base_url=http://127.0.0.1:2/v1"} {
		require.NotEqual(t, identity(), identity(key+other), other)
	}
	adapter := filepath.Join(filepath.Dir(path), "adapter")
	for _, file := range []string{filepath.Join(dir, "config.json"), filepath.Join(dir, "model.safetensors"),
		filepath.Join(adapter, "adapter_model.safetensors")} {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		testkit.Write(t, file, "old")
	}
	local := "run.backend=local"
	before, with := identity(local), identity(local, "backends.local.lora_adapter_path=adapter")
	require.Equal(t, before, identity(local, "backends.local.engine=go"))
	require.NotEqual(t, before, with)
	testkit.Write(t, filepath.Join(adapter, "adapter_model.safetensors"), "new")
	require.NotEqual(t, with, identity(local, "backends.local.lora_adapter_path=adapter"))
	testkit.Write(t, filepath.Join(dir, "model.safetensors"), "new")
	require.NotEqual(t, before, identity(local))

	judge := func(scorer, more string) string {
		block := "state_reward: {state_estimation: {enable: true, reward: 0.25}, scorer: " + scorer + more + "}"
		e, err := Load(evalFile(t, strings.Replace(evalText, "text}\nexperiment", "text, "+block+"}\nexperiment", 1)), nil)
		require.NoError(t, err)
		require.Empty(t, e.Tasks[0].Judge)
		return e.Tasks[1].Judge
	}
	const service = ", judge_base_url: 'http://127.0.0.1:1/v1', judge_model: "
	m := judge("judge", service+"m")
	require.Equal(t, m, judge("judge", service+"m, judge: {concurrency: 2}"))
	for _, other := range []string{judge("judge", service+"n"), judge("exact", ""),
		judge("judge", strings.Replace(service, ":1/", ":2/", 1)+"m")} {
		require.NotEqual(t, m, other)
	}
}

// TestDatasetsAreEvaluatedToo: files of all forms; their tags stay separate.
func TestDatasetsAreEvaluatedToo(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		testkit.Write(t, filepath.Join(dir, name), text)
	}
	write("more.yaml", "envs:\n- {name: frozenlake, n_envs: 2, tag_id: more, seed: [9], response_length_per_turn: 8}\n")
	write("old.yaml", "env1: {env_name: frozenlake, env_config: {render_mode: text}, train_size: 3, test_size: 2}\n")
	base := "datasets: [more.yaml, old.yaml]\ndefault_chat_config: {max_tokens: 9}\nrun: {backend: local}\nbackends: {local: {model: m}}\n"
	write("eval.yaml", base)
	e, err := Load(filepath.Join(dir, "eval.yaml"), nil)
	require.NoError(t, err)
	require.Len(t, e.Tasks, 2)
	require.Equal(t, []any{"more", "env1", 2, 2, 8}, []any{e.Tasks[0].Tag, e.Tasks[1].Tag, len(e.Tasks[0].Episodes),
		len(e.Tasks[1].Episodes), e.Tasks[0].Player.Sampling.MaxTokens})
	lines := []dataset.Episode{{Name: "frozenlake", Env: "frozenlake", Seed: 1, Source: "s"}, {Name: "frozenlake",
		Env: "frozenlake", Seed: 2, Source: "s"}}
	for _, c := range []struct{ first, second, want dataset.Limits }{
		{dataset.Limits{ResponseTokens: 2, RegionTokens: 3}, dataset.Limits{ResponseTokens: 4, RegionTokens: 7},
			dataset.Limits{ResponseTokens: 4, RegionTokens: 7}},
		{dataset.Limits{ResponseTokens: 2, RegionTokens: 3}, dataset.Limits{}, dataset.Limits{ResponseTokens: 9}},
		{dataset.Limits{}, dataset.Limits{ResponseTokens: 2, RegionTokens: 3}, dataset.Limits{ResponseTokens: 9}},
	} {
		lines[0].Limits, lines[1].Limits = c.first, c.second
		require.NoError(t, dataset.SaveParquet(filepath.Join(dir, "mixed.parquet"), lines, dataset.ParquetOptions{}))
		write("mixed.yaml", strings.Replace(base, "more.yaml, old.yaml", "mixed.parquet", 1))
		e, err := Load(filepath.Join(dir, "mixed.yaml"), nil)
		require.NoError(t, err)
		require.Equal(t, c.want, dataset.Limits{ResponseTokens: e.Tasks[0].Player.Sampling.MaxTokens,
			RegionTokens: e.Tasks[0].Player.Budget.Response}, "the widest of all lines")
		require.Equal(t, c.second.ResponseTokens, e.Tasks[0].Episodes[1].MaxTokens)
	}
	write("eval.yaml", base+"envs:\n- {name: frozenlake, n_envs: 2, tag_id: MORE, seed: [9]}\n")
	_, err = Load(filepath.Join(dir, "eval.yaml"), nil)
	testkit.Error(t, err, config.ErrConfig, `more.yaml: envs[0]: tag_id is "more", which`)
}

// TestAnEvaluationIsReadAsOneDocument: as JSON, too, and with anchors and keys of the file in the entries of envs,
// whose errors have their lines. Overrides replace the list.
func TestAnEvaluationIsReadAsOneDocument(t *testing.T) {
	const text = `{"run": {"backend": "a"}, "backends": {"a": {"model": "m"}}, "default_chat_config": {"max_tokens": 9},
  "envs": [{"name": "frozenlake", "n_envs": 2, "tag_id": "x", "seed": [5], "config": {"render_mode": "text"}}]}`
	require.True(t, IsConfig([]byte(text)))
	require.False(t, IsConfig([]byte("envs: [")), "it cannot be read")
	path := evalFile(t, text)
	e, err := Load(path, nil)
	require.NoError(t, err)
	first := e.Tasks[0].Episodes
	require.Equal(t, []any{"x", 2, "text"}, []any{e.Tasks[0].Tag, len(first), first[0].Config["render_mode"]})
	e, err = Load(path, []string{"envs=[{name: frozenlake, n_envs: 3, tag_id: y, seed: [5]}]"})
	require.NoError(t, err)
	require.Equal(t, []any{"y", 3}, []any{e.Tasks[0].Tag, len(e.Tasks[0].Episodes)})
	_, err = Load(path, []string{"envs=[{name: FrozenLaek, n_envs: 3, tag_id: y, seed: [5]}]"})
	require.ErrorContains(t, err, "bad dataset: envs[0]: name: environment \"FrozenLaek\" is unknown")

	shared := strings.Replace(evalText, "datasets: []", "split: &name test", 1)
	e, err = Load(evalFile(t, strings.Replace(shared, "tag_id: packed", "tag_id: *name", 1)), nil)
	require.NoError(t, err)
	require.Equal(t, "test", e.Tasks[1].Tag)
	_, err = Load(evalFile(t, strings.Replace(shared, "name: frozenlake\n", "name: *name\n", 1)), nil)
	testkit.Error(t, err, config.ErrConfig, `line 15: envs[1]: name: environment "test" is unknown`)
	e, err = Load(evalFile(t, strings.Replace(evalText, "tag_id: packed", "tag_id: '${experiment.default_max_turns}'", 1)), nil)
	require.NoError(t, err)
	require.Equal(t, "2", e.Tasks[1].Tag)
	_, err = Load(evalFile(t, strings.Replace(evalText, "tag_id: packed", "tag_id: '${none}'", 1)), nil)
	testkit.Error(t, err, config.ErrConfig, "line 5: envs: ${none}: unknown key")
}

// TestVariablesChangeOnlyTheirOwnValue: one may hold what YAML would read otherwise.
func TestVariablesChangeOnlyTheirOwnValue(t *testing.T) {
	t.Setenv("VAGEN_TEST", "a: b # c")
	t.Setenv("VAGEN_JOBS", "3")
	text := strings.Replace(evalText, "${oc.env:NOT_SET,runs}", "${oc.env:VAGEN_TEST}", 1)
	text = strings.Replace(text, "run: {", "run:\n  max_concurrent_jobs: ${oc.env:VAGEN_JOBS}\n  <<: {", 1)
	e, err := Load(evalFile(t, text), nil)
	require.NoError(t, err)
	require.Equal(t, []any{"a: b # c", 3}, []any{e.Config.FileRoot, e.Config.Run.Jobs})
}

// TestEvaluationsReportAllMistakes at once, with their lines.
func TestEvaluationsReportAllMistakes(t *testing.T) {
	_, err := Load(evalFile(t, `run: {backend: openai, resume: maybe, max_concurrent_jobs: 0}
split: both
experimint: {}
key: ${oc.env:NOT_SET}
envs:
  - {name: FrozenLaek, n_envs: 1}
  - {name: frozenlake, n_envs: 1, tag_id: "../up"}
  - {name: frozenlake, n_envs: 1, tag_id: same}
  - {name: frozenlake, n_envs: 1, tag_id: same}
datasets: [none.parquet]
backends:
  openai: {api: grpc, api_key: sk-123, modle: x}
`), []string{"run.workers=-1"})
	require.ErrorIs(t, err, config.ErrConfig)
	for _, want := range []string{
		`run.resume is "maybe"`, "run.max_concurrent_jobs is 0", "run.workers is -1", `split is "both"`,
		`line 3: unknown key "experimint"`, "the environment variable NOT_SET is not set",
		`line 6: envs[0]: name: environment "FrozenLaek" is unknown`, `line 7: envs[1]: tag_id: "../up" begins`,
		`line 9: envs[3]: tag_id "same" is the tag of envs[2]`,
		"none.parquet", `backends.openai: api is "grpc"`, "backends.openai: api_key contains a key", `did you mean "model"?`,
		"backends.openai: model is empty",
	} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "sk-123")
	for want, change := range map[string]string{
		"tag_id is missing": "tag_id: x|", "a local model has its own": "|tokenizer: gpt2, response_length_per_turn: 5",
		"are unset: set one of them":      "|",
		"no length at which to summarise": "|harness: compact, response_length_per_turn: 5",
		`did you mean "temperature"?`:     "|chat_config: {temprature: 1, max_tokens: 5}",
		"temperature is -1":               "|chat_config: {temperature: -1, max_tokens: 5}",
		"temperature is 1e+07, must be":   "|chat_config: {temperature: 1e7, max_tokens: 5}",
		"temperature is +Inf":             "|chat_config: {temperature: .inf, max_tokens: 5}",
		"temperature is NaN":              "|chat_config: {temperature: .nan, max_tokens: 5}",
		`did you mean "compact"?`:         "|harness: compcat, response_length_per_turn: 5",
		"thinking_token_budget":           "|thinking_token_budget: 5, response_length_per_turn: 5",
	} {
		tag := "tag_id: x, "
		if change[0] == 't' { // the line to remove
			tag, change = "", change[len("tag_id: x"):]
		}
		entry := fmt.Sprintf("{name: frozenlake, n_envs: 1, %s%s}", tag, change[1:])
		_, err := Load(evalFile(t, "envs:\n  - "+entry+"\nrun: {backend: a}\nbackends: {a: {model: m}}\n"), nil)
		require.ErrorContains(t, err, want, entry)
	}
	_, err = Load(evalFile(t, "run: {backend: a}\nbackends: {a: {model: m}}\n"), nil)
	require.ErrorContains(t, err, "there are no environments")
	_, err = Load(filepath.Join(t.TempDir(), "none.yaml"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestAnEvaluationHasNoWorkers: a queue is refused by its name, and its settings are noted.
func TestAnEvaluationHasNoWorkers(t *testing.T) {
	path := evalFile(t, evalText)
	_, err := Load(path, []string{"run.queue=nats://host:4222"})
	testkit.Error(t, err, config.ErrConfig, "run.queue is nats://host:4222, which is not supported",
		"set it to null or remove it")
	e, err := Load(path, []string{"run.queue=null", "run.queue_options.lease=3"})
	require.NoError(t, err)
	require.Contains(t, strings.Join(e.Notes, "\n"), "run.queue_options.lease: an evaluation has no queue")
	text := strings.Replace(evalText, "seed: 3}", "queue: embedded, queue_options: {lease: 3}}", 1)
	_, err = Load(evalFile(t, text), nil)
	require.ErrorContains(t, err, "run.queue is embedded")
}

// TestTheResponsesAPIIsRefused: it is not replaced by chat completions. A known service
// needs its address.
func TestTheResponsesAPIIsRefused(t *testing.T) {
	for _, c := range []struct{ block, want string }{
		{"openai_responses: {model: m}",
			`backends.openai_responses: api is "openai_responses", which is not supported: api openai calls`},
		{"azure_responses: {model: m}", `api is "azure_responses", which is not supported`},
		{"mine: {model: m, api: openai_responses}", `backends.mine: api is "openai_responses", which is not supported`},
		{"vllm: {model: m}", "backends.vllm: base_url is empty, which means the address of OpenAI"},
		{"openai_responses: {model: m, api: openai}", ""},
		{"vllm: {model: m, base_url: 'http://127.0.0.1:1/v1'}", ""},
	} {
		name, _, _ := strings.Cut(c.block, ":")
		_, err := Load(evalFile(t, "envs: [{name: sokoban, n_envs: 1, tag_id: x, response_length_per_turn: 9}]\nrun: {backend: "+name+"}\nbackends: {"+c.block+"}\n"), nil)
		if c.want == "" {
			require.NoError(t, err, c.block)
		} else {
			testkit.Error(t, err, config.ErrConfig, c.want)
		}
	}
}

// TestALocalModelHasTheProgramsOfTraining: the same keys, rules and defaults as group model of training.
func TestALocalModelHasTheProgramsOfTraining(t *testing.T) {
	path := evalFile(t, strings.Replace(evalText, `    stop_strings: ["</answer>"]`+"\n", "", 1))
	const key = "backends.local."
	e, err := Load(path, []string{"run.backend=local", key + "engine=cuda", key + "autotune=kernels.txt", key +
		"autotune_sha256=ab", key + "tokens_per_call=4"})
	require.NoError(t, err)
	o := e.modelOptions("", nil)
	require.Equal(t, []any{filepath.Join(filepath.Dir(path), "kernels.txt"), "ab", 4},
		[]any{o.Autotune, o.AutotuneSHA256, o.TokensPerCall})
	e, err = Load(path, []string{"run.backend=local"})
	require.NoError(t, err)
	o, m := e.modelOptions("", nil), config.Default().Model
	require.Equal(t, []any{m.Autotune, m.AutotuneSum, m.PerCall}, []any{o.Autotune, o.AutotuneSHA256, o.TokensPerCall})
	for set, want := range map[string]string{
		key + "autotune=k":                             `backends.local: autotune is "k", but engine is "auto", must be cuda`,
		key + "autotune_sha256=ab":                     `autotune_sha256 is "ab", but autotune is empty`,
		key + "tokens_per_call=3":                      "tokens_per_call is 3, must be 0, 1, 2, 4 or 8",
		key + "engine=go " + key + "tokens_per_call=2": "tokens_per_call is 2, must be 0 or 1 with engine go",
	} {
		_, err := Load(path, append(strings.Fields(set), "run.backend=local"))
		testkit.Error(t, err, config.ErrConfig, want)
	}
	_, err = Load(path, []string{"backends.sglang.tokens_per_call=2", "backends.sglang.bfloat16=true"})
	require.ErrorContains(t, err, `api is "openai", but bfloat16 is set, which only a local model has`)
	require.ErrorContains(t, err, "tokens_per_call is set, which only a local model has")
	_, err = Load(path, []string{"run.backend=local", key + "budget=2", key + "price={prompt: 1, completion: 2}"})
	require.ErrorContains(t, err, `api is "local", but budget is set, which only a model behind an API has`)
	require.Equal(t, 1, strings.Count(err.Error(), "price is set"))
}

// TestAnEvaluationIsCheckedWithASampleTurn: a local model whose template opens a thought cannot
// be evaluated in a format without one, nor one that reads text only with images.
func TestAnEvaluationIsCheckedWithASampleTurn(t *testing.T) {
	text := strings.Replace(evalText, "model: folder", "model: model", 1)
	for shown, refused := range map[string]string{
		"text, prompt_format: wm_think": "", "text, prompt_format: wm": "has the format wm (<perception>",
		"vision, prompt_format: wm_think": "it shows images, but the model of backends.local.model (qwen2) reads text only",
	} {
		path := evalFile(t, strings.Replace(text, "text}\nexperiment", shown+", rules: next}\nexperiment", 1))
		dir := filepath.Join(filepath.Dir(path), "model")
		shape := vlm.Shape{
			Family: "qwen2", Layers: 1, Hidden: 16, FF: 16, Heads: 1, KVHeads: 1, HeadDim: 16, MaxPositions: 4096,
			RopeTheta: 1e4,
		}
		require.NoError(t, vlm.Create(dir, shape, nil, 1))
		template := `{%- for m in messages %}{{- '<|im_start|>' + m.role + m.content + '<|im_end|>' }}{%- endfor %}` +
			`{%- if add_generation_prompt %}{{- '<|im_start|>assistant<think>' }}{%- endif %}`
		testkit.Write(t, filepath.Join(dir, "chat_template.jinja"), template)
		e, err := Load(path, []string{"run.backend=local", "backends.local.engine=go"})
		require.NoError(t, err)
		if err = e.Check(t.Context(), nil); refused == "" {
			require.NoError(t, err)
			continue
		}
		testkit.Error(t, err, config.ErrConfig, "tag packed: frozenlake: ", refused)
	}
}

// echo answers every prompt with its options' model.
type echo struct {
	model  string
	closed *bool
}

func (e echo) Generate(_ context.Context, prompts []policy.Prompt, _ policy.Sampling) ([]policy.Completion, error) {
	return make([]policy.Completion, len(prompts)), nil
}
func (echo) Forget(...uint64) {}
func (e echo) Close() error   { *e.closed = true; return nil }

func TestOwnBackendsAndEnvironmentsAreNamedLikeThoseOfTheLibrary(t *testing.T) {
	closed, backends := false, chat.Builtin()
	open := func(_ context.Context, o chat.Options) (policy.Policy, error) { return echo{o.Model, &closed}, nil }
	require.NoError(t, backends.Register("echo", open))
	require.ErrorIs(t, backends.Register("openai", open), chat.ErrDuplicate)
	require.ErrorIs(t, backends.Register("local", open), chat.ErrDuplicate)
	envs := func() *env.Registry {
		r := builtin.Registry()
		require.NoError(t, r.Register("own_lake", frozenlake.FromConfig))
		return r
	}
	text := strings.Replace(evalText, "name: frozenlake", "name: own_lake", 1)
	text = strings.Replace(text, `    stop_strings: ["</answer>"]`+"\n", "", 1)
	path := evalFile(t, strings.Replace(text, "local: {model: folder}",
		"echo: {model: folder}\n  other: {api: echo, model: second}", 1))
	for backend, model := range map[string]string{"echo": "folder", "other": "second"} {
		plan, err := Parts{Backends: backends, Envs: envs}.Load(path, []string{"run.backend=" + backend})
		require.NoError(t, err)
		require.NoError(t, plan.Check(t.Context(), slog.New(slog.DiscardHandler)))
		p, apart, shut, err := plan.Open(t.Context(), slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		require.Equal(t, echo{model, &closed}, p)
		require.True(t, apart)
		shut()
		require.True(t, closed)
	}
	_, err := Parts{Backends: backends, Envs: envs}.Load(path, []string{"run.backend=other", "backends.other.api=ecco"})
	testkit.Error(t, err, config.ErrConfig,
		`must be one of ["anthropic" "echo" "gemini" "openai" "local"], did you mean "echo"?`)
}
