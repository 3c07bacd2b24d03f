package evaluation

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/env/dataset"
	"vagen/internal/field"
	"vagen/internal/regular"
	"vagen/internal/safeyaml"
	"vagen/internal/settings"
	"vagen/policy/chat"
	"vagen/policy/vlm"
	"vagen/rollout/evaluate"
	"vagen/rollout/gateway"
	"vagen/train/config"
)

// Config is the configuration of vagen eval: what it plays, with which policy, and
// where it writes results. Keys are those of VAGEN next's evaluation. The entries of
// Envs are read by package env/dataset.
type Config struct {
	Envs       []any          `yaml:"envs" doc:"list of entries, as for vagen dataset build"`
	FileRoot   string         `yaml:"fileroot" doc:"a folder, which other values refer to as ${fileroot}"`
	Datasets   []string       `yaml:"datasets" doc:"files of environments in addition to envs, YAML or parquet as vagen dataset reads them, relative to this file; episodes without tag_id use data_source as their tag"`
	Split      string         `yaml:"split" oneof:"train test" doc:"split of legacy files to play: train or test"`
	Experiment Experiment     `yaml:"experiment"`
	Run        Run            `yaml:"run"`
	Chat       map[string]any `yaml:"default_chat_config" doc:"sampling of responses for entries without chat_config: temperature, top_p, top_k, min_p, max_tokens, stop"`
	Backends   map[string]any `yaml:"backends" doc:"settings of backends, by name; see the keys of a backend"`
}

// Experiment sets where results are written.
type Experiment struct {
	DumpDir  string `yaml:"dump_dir" doc:"folder for results, relative to this file"`
	MaxTurns int    `yaml:"default_max_turns" count:"positive" doc:"maximum turns of an episode for entries without max_turns"`
}

// Run sets how episodes are played.
type Run struct {
	Backend        string  `yaml:"backend" doc:"name of the backend to evaluate"`
	BaseSeed       int64   `yaml:"base_seed" doc:"offset of the seeds that entries generate"`
	Seed           uint64  `yaml:"seed" doc:"seed of sampling; APIs give no or weak guarantees of determinism"`
	Jobs           int     `yaml:"max_concurrent_jobs" count:"positive" doc:"concurrent episodes: independent of each other on an API, in batches on a local model"`
	Resume         string  `yaml:"resume" oneof:"skip_completed off force_rerun" doc:"skip_completed plays missing episodes, force_rerun plays all again, off refuses folders with results"`
	Live           bool    `yaml:"live_summary" doc:"also update the summary every few seconds, not only at the end"`
	Workers        int     `yaml:"workers" count:"0" doc:"environments of a batch stepped concurrently; 0 as in run.workers of training. Changes no result"`
	EnvTimeout     float64 `yaml:"env_timeout" unit:"seconds" range:"0,1e+06" doc:"time limit of one call of an environment; 0 is 600"`
	EpisodeTimeout float64 `yaml:"episode_timeout" unit:"seconds" range:"0,1e+06" doc:"time limit of all calls of an environment in an episode together; 0 is no limit"`
	Retry          bool    `yaml:"retry" doc:"replay episodes immediately if their environment failed or a response cannot be used"`
}

// Default returns the defaults of an evaluation.
func Default() Config {
	return Config{
		Split: "test", Experiment: Experiment{DumpDir: "rollouts", MaxTurns: 5},
		Run: Run{Backend: "openai", Jobs: 64, Resume: string(evaluate.SkipCompleted), Live: true},
	}
}

// BackendConfig sets the policy to evaluate: a model behind an API, or in this process.
type BackendConfig struct {
	API   string `yaml:"api" doc:"openai, anthropic, gemini, local or one that the program has registered; if empty, the backend's name if it is one of these, anthropic for claude, openai for all others"`
	Model string `yaml:"model" doc:"name of the model at the service; for api local its folder, relative to the configuration"`
	Name  string `yaml:"name" doc:"name of the model in results; if empty, model"`

	BaseURL     string         `yaml:"base_url" doc:"address of the service with its version, such as http://127.0.0.1:30000/v1; null is the API's public address"`
	KeyEnv      string         `yaml:"key_env" doc:"environment variable with the key. If empty, the API's own variable, such as OPENAI_API_KEY, is used at its public address; in the blocks openai, claude, anthropic and gemini it is also used with any base_url, if it is set and api_key is not EMPTY. Other addresses get no key"`
	APIKey      string         `yaml:"api_key" doc:"must be empty or EMPTY: keys come from environment variables, so that no file contains them"`
	Concurrency int            `yaml:"max_concurrency" doc:"concurrent requests"`
	Requests    int            `yaml:"requests_per_minute" doc:"maximum requests per minute; 0 is no limit"`
	Tokens      int            `yaml:"tokens_per_minute" doc:"maximum tokens per minute, as far as they are known; 0 is no limit"`
	Retries     int            `yaml:"max_retries" doc:"number of retries after temporary failures"`
	MinBackoff  float64        `yaml:"min_backoff" unit:"seconds" doc:"delay before the first retry; it doubles with every retry"`
	MaxBackoff  float64        `yaml:"max_backoff" unit:"seconds" doc:"maximum delay; a longer one that a service requests is kept, up to an hour"`
	Timeout     float64        `yaml:"timeout" unit:"seconds" doc:"time limit of one attempt"`
	Omit        []string       `yaml:"omit" doc:"sampling fields that the model does not support, by their names in the API"`
	Extra       map[string]any `yaml:"extra" doc:"additional fields of every request"`
	JPEG        int            `yaml:"jpeg" doc:"send images as JPEG with this quality from 1 to 100; 0 sends PNG"`
	MaxSide     int            `yaml:"max_side" doc:"maximum pixels of the longer side of images; larger ones are scaled down. 0 is no limit"`
	Detail      string         `yaml:"detail" doc:"image detail for openai: low, high or auto"`
	Opens       string         `yaml:"template_opens" doc:"text with which the server's chat template begins every response, such as <think>, if the server leaves it out of its answers; it is put in front of them. Reasoning in a field of its own needs no setting"`
	Price       Price          `yaml:"price"`
	Budget      float64        `yaml:"budget" doc:"maximum cost of all requests, in the currency of price; 0 is no limit"`

	Engine      string `yaml:"engine" doc:"local: auto, xla, cuda or go"`
	BFloat16    bool   `yaml:"bfloat16" doc:"local: compute activations in bfloat16"`
	CacheTokens int    `yaml:"cache_tokens" doc:"local: minimum length of a conversation's KV cache in tokens"`
	Autotune    string `yaml:"autotune" doc:"local: as model.autotune of training, relative to the configuration"`
	AutotuneSum string `yaml:"autotune_sha256" doc:"local: SHA-256 that the file of autotune must have; empty permits any"`
	PerCall     int    `yaml:"tokens_per_call" doc:"local: as model.tokens_per_call of training"`
	Adapter     string `yaml:"lora_adapter_path" doc:"local: folder of an adapter in PEFT layout"`
}

// Price sets the price of tokens.
type Price struct {
	Prompt     float64 `yaml:"prompt" doc:"cost of a million prompt tokens, in any currency"`
	Completion float64 `yaml:"completion" doc:"cost of a million completion tokens"`
	CacheRead  float64 `yaml:"cache_read" doc:"cost of a million prompt tokens read from the service's cache; 0 uses prompt"`
	CacheWrite float64 `yaml:"cache_write" doc:"cost of a million prompt tokens written to the service's cache; 0 uses prompt"`
}

// DefaultBackend returns the defaults of a backend.
func DefaultBackend() BackendConfig {
	o := chat.DefaultOptions("", "")
	return BackendConfig{
		Concurrency: o.Concurrency, Retries: o.Retries, MinBackoff: o.Backoff.Seconds(), MaxBackoff: o.MaxDelay.Seconds(),
		Timeout: o.Timeout.Seconds(), Engine: "auto",
	}
}

// chatKeys are the settings of a backend's options.
var chatKeys = map[string]string{
	"Model": "model", "BaseURL": "base_url", "KeyEnv": "key_env", "Concurrency": "max_concurrency",
	"RequestsPerMinute": "requests_per_minute", "TokensPerMinute": "tokens_per_minute", "Retries": "max_retries",
	"Backoff": "min_backoff", "MaxDelay": "max_backoff", "Timeout": "timeout", "Omit": "omit", "Extra": "extra",
	"Pictures.JPEG": "jpeg", "Pictures.MaxSide": "max_side", "Pictures.Detail": "detail", "Opened": "template_opens",
	"Prices": "price", "Budget": "budget",
}

// ChatConfig sets how responses are sampled.
type ChatConfig struct {
	Temperature float64  `yaml:"temperature" doc:"divides the logits; 0 selects the most likely token"`
	TopP        float64  `yaml:"top_p" doc:"keep the smallest set of tokens with this probability; 1 keeps all"`
	TopK        int      `yaml:"top_k" doc:"keep the k most likely tokens; -1 or 0 keeps all"`
	MinP        float64  `yaml:"min_p" doc:"drop tokens below this share of the most likely one"`
	MaxTokens   int      `yaml:"max_tokens" doc:"maximum response length; an entry's response_length_per_turn, if smaller, applies instead"`
	Stop        []string `yaml:"stop" doc:"texts that end a response"`
}

var foreign = []settings.Foreign{
	{Key: "defaults.*", Kind: settings.Noted,
		About: "this library has its own defaults for backends: vagen eval --explain lists them"},
	{Key: "backends.*.api_key_env", Kind: settings.Refused, About: "use key_env"},
	{Key: "run.queue", Kind: settings.Refused, About: "an evaluation plays its episodes in its own process, " +
		"max_concurrent_jobs at a time: set it to null or remove it; only training runs have workers"},
	{Key: "run.queue_options.*", Kind: settings.Noted, About: "an evaluation has no queue"},
}

// IsConfig reports, by its top-level keys, whether a file is a configuration of an
// evaluation rather than of training.
func IsConfig(raw []byte) bool {
	lines, _ := safeyaml.Lines(raw) // who reads the file reports the error
	return slices.ContainsFunc([]string{"envs", "datasets", "backends", "experiment", "default_chat_config"},
		func(key string) bool { return lines[key] > 0 })
}

// Parts are a program's own parts of an evaluation. The zero value has those of the library.
type Parts struct {
	// Backends are those that api may name, beside local; nil is chat.Builtin.
	Backends *chat.Registry
	// Envs returns a new registry of environments for each tag; nil has those of the library, and agents.
	Envs func() *env.Registry
}

// Load reads an evaluation with the parts of the library; see Parts.Load.
func Load(path string, overrides []string) (*Plan, error) { return Parts{}.Load(path, overrides) }

// Load reads an evaluation. It reports all errors at once, wrapped in
// config.ErrConfig.
func (p Parts) Load(path string, overrides []string) (*Plan, error) {
	if p.Backends == nil {
		p.Backends = chat.Builtin()
	}
	if p.Envs == nil {
		p.Envs = func() *env.Registry {
			r := builtin.Registry()
			_ = gateway.Register(r, nil) // the name is new
			return r
		}
	}
	raw, err := regular.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", config.ErrConfig, err)
	}
	e := &Plan{Config: Default(), dir: filepath.Dir(path), own: p}
	l := settings.NewLoader(&e.Config, foreign)
	l.Variables = true
	l.YAML(path, raw)
	l.Overrides(overrides)
	notes, given, problems := l.Finish()
	for _, n := range notes {
		e.Notes = append(e.Notes, n.Key+": "+n.About)
	}
	problems = append(problems, e.check()...)
	if len(e.Config.Envs) > 0 {
		var lines map[string]int
		if strings.HasPrefix(given["envs"].Where, path) { // and not an override
			lines, _ = safeyaml.Lines(raw)
		}
		problems = append(problems, e.readEnvs(path, lines)...)
	}
	problems = append(problems, e.readFiles()...)
	if len(e.parts) == 0 && len(problems) == 0 {
		problems = append(problems, errors.New("there are no environments: set envs or datasets"))
	}
	if len(problems) == 0 {
		problems = append(problems, e.makeTasks()...)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%w: %w", config.ErrConfig, errors.Join(problems...))
	}
	return e, nil
}

// readEnvs reads the list envs, whose entries are in these lines.
func (e *Plan) readEnvs(path string, lines map[string]int) []error {
	f, err := dataset.ReadEntries(e.Config.Envs, lines, e.options())
	if err != nil {
		return []error{fmt.Errorf("%s: %w", path, err)}
	}
	return e.add(path+": ", f)
}

// check checks the settings other than the entries of envs.
func (e *Plan) check() []error {
	var bad field.Checks
	c := &e.Config
	settings.Check(&bad, c)
	if c.Experiment.DumpDir == "" {
		bad.Say("experiment.dump_dir is empty")
	}
	backend, problems := e.backend()
	e.Backend = backend
	e.models.Options = vlm.Options{Backend: backend.Engine, BFloat16: backend.BFloat16, TokensPerCall: backend.PerCall}
	return append(bad.Errors(), problems...)
}

// backend reads the block of the selected backend.
func (e *Plan) backend() (BackendConfig, []error) {
	name := e.Config.Run.Backend
	b := DefaultBackend()
	block, ok := e.Config.Backends[name].(map[string]any)
	if !ok {
		return b, []error{fmt.Errorf("run.backend is %q, must be one of the blocks in backends: %q", name, slices.Sorted(maps.Keys(e.Config.Backends)))}
	}
	var bad field.Checks
	given := map[string]any{}
	for key, v := range block {
		if v != nil { // null leaves the default
			given[key] = v
		}
	}
	for _, err := range settings.Fill(&b, given) {
		bad.Say("%w", err)
	}
	if b.APIKey != "" && b.APIKey != "EMPTY" {
		bad.Say("api_key contains a key, must be empty or EMPTY: put the key into an environment variable and set key_env to its name")
	}
	if b.API == "" {
		switch strings.ToLower(name) {
		case "claude":
			b.API = "anthropic"
		case "openai_responses", "azure_responses":
			b.API = strings.ToLower(name) // refused below
		case "sglang", "vllm", "together", "azure":
			b.API = "openai"
			if b.BaseURL == "" {
				bad.Say("base_url is empty, which means the address of OpenAI: set it to the address of %s, or set api: openai to use OpenAI", name)
			}
		default:
			b.API = "openai"
			if own := strings.ToLower(name); own == local || slices.Contains(e.own.Backends.Names(), own) {
				b.API = own
			}
		}
	}
	if apis := append(e.own.Backends.Names(), local); strings.HasSuffix(b.API, "_responses") {
		bad.Say("api is %q, which is not supported: api openai calls the same models by chat completions; must be one of %q", b.API, apis)
	} else {
		bad.OneOf("api", b.API, apis...)
	}
	programs := config.ModelConfig{Backend: b.Engine, Autotune: b.Autotune, AutotuneSum: b.AutotuneSum, PerCall: b.PerCall}
	programs.CheckPrograms(&bad, "", "engine")
	b.misplaced(&bad, given)
	if b.Model == "" {
		bad.Say("model is empty")
	}
	if b.Name == "" {
		b.Name = b.Model
	}
	out := bad.Errors()
	for i, err := range out {
		out[i] = fmt.Errorf("backends.%s: %w", name, err)
	}
	return b, out
}

// misplaced reports the given settings that only a local model has, or only one behind an API.
func (b *BackendConfig) misplaced(bad *field.Checks, given map[string]any) {
	kind := map[bool]string{true: "a local model", false: "a model behind an API"}
	for _, k := range settings.Keys(b) {
		key, _, _ := strings.Cut(k.Path, ".")
		own := strings.HasPrefix(k.Doc, "local: ")
		if _, set := given[key]; set && own != (b.API == local) && !slices.Contains([]string{"api", "model", "name"}, key) {
			bad.Say("api is %q, but %s is set, which only %s has", b.API, key, kind[own])
			delete(given, key) // a block has several settings
		}
	}
}

// local is the backend of a model in this process.
const local = "local"

// at resolves a path relative to the configuration's folder.
func (e *Plan) at(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(e.dir, path)
}
