package run

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"vagen/internal/settings"
	"vagen/rollout/evaluate"
	"vagen/train/config"
)

// EvalConfig says what vagen eval plays, with what, and where results go. Keys are
// those of the newest VAGEN's evaluation; envs, a list, is read by package
// env/dataset.
type EvalConfig struct {
	FileRoot   string         `yaml:"fileroot" doc:"a folder that other values may refer to as ${fileroot}"`
	Datasets   []string       `yaml:"datasets" doc:"files of environments beside envs, YAML or parquet as vagen dataset reads them, relative to this file; episodes without tag_id go by data_source"`
	Split      string         `yaml:"split" doc:"which part of legacy files is played: train or test"`
	Experiment EvalExperiment `yaml:"experiment"`
	Run        EvalRun        `yaml:"run"`
	Chat       map[string]any `yaml:"default_chat_config" doc:"how responses are sampled where an entry has no chat_config: temperature, top_p, top_k, min_p, max_tokens, stop"`
	Backends   map[string]any `yaml:"backends" doc:"how policies are reached, by name; see there"`
}

// EvalExperiment says where results go.
type EvalExperiment struct {
	DumpDir  string `yaml:"dump_dir" doc:"folder for results, relative to this file"`
	MaxTurns int    `yaml:"default_max_turns" doc:"longest episode in turns where an entry has no max_turns"`
}

// EvalRun says how episodes are played.
type EvalRun struct {
	Backend        string  `yaml:"backend" doc:"which of the backends plays"`
	BaseSeed       int64   `yaml:"base_seed" doc:"shifts the seeds of levels that entries draw"`
	Seed           uint64  `yaml:"seed" doc:"decides what is sampled; services promise little of that"`
	Jobs           int     `yaml:"max_concurrent_jobs" doc:"episodes at once: each by itself on an API, in batches on a local model"`
	Resume         string  `yaml:"resume" doc:"skip_completed goes on, force_rerun begins anew, off refuses folders with results"`
	Live           bool    `yaml:"live_summary" doc:"write the summary every few seconds, not only at the end"`
	Workers        int     `yaml:"workers" doc:"environments of a batch worked on at once; changes no result"`
	EnvTimeout     float64 `yaml:"env_timeout" unit:"seconds" doc:"longest call of an environment; 0 is 600"`
	EpisodeTimeout float64 `yaml:"episode_timeout" unit:"seconds" doc:"longest time that an environment may take over an episode; 0 is no limit"`
	Retry          bool    `yaml:"retry" doc:"play episodes again at once whose environment failed or whose response cannot be used"`
}

// DefaultEval returns the defaults of an evaluation.
func DefaultEval() EvalConfig {
	return EvalConfig{
		Split: "test", Experiment: EvalExperiment{DumpDir: "rollouts", MaxTurns: 5},
		Run: EvalRun{Backend: "openai", Jobs: 64, Resume: string(evaluate.SkipCompleted), Live: true, Workers: 2},
	}
}

// BackendConfig is how a policy is reached: an API, or a model in this process.
type BackendConfig struct {
	API   string `yaml:"api" doc:"openai, anthropic, gemini or local; without it the backend's name says: claude and anthropic, gemini, local, and openai for all others"`
	Model string `yaml:"model" doc:"as the service calls it; of a local one its folder, relative to the configuration"`
	Name  string `yaml:"name" doc:"how results call it; without it model"`

	BaseURL     string         `yaml:"base_url" doc:"address of the service with its version, such as http://127.0.0.1:30000/v1; null is the public one of the API"`
	KeyEnv      string         `yaml:"key_env" doc:"environment variable that holds the key. Empty is that of the API at its public address, such as OPENAI_API_KEY, and with any base_url in the blocks openai, claude, anthropic and gemini, if it is set and api_key is not EMPTY; no key goes to other addresses"`
	APIKey      string         `yaml:"api_key" doc:"must be empty or EMPTY: keys are in the environment, where they end up in no file"`
	Concurrency int            `yaml:"max_concurrency" doc:"requests at once"`
	Requests    int            `yaml:"requests_per_minute" doc:"most requests in any minute; 0 is no limit"`
	Tokens      int            `yaml:"tokens_per_minute" doc:"most tokens in any minute, as far as they are known; 0 is no limit"`
	Retries     int            `yaml:"max_retries" doc:"attempts after the first where a failure may pass"`
	MinBackoff  float64        `yaml:"min_backoff" unit:"seconds" doc:"delay before the first of them, which doubles"`
	MaxBackoff  float64        `yaml:"max_backoff" unit:"seconds" doc:"longest delay, also of those that a service asks for"`
	Timeout     float64        `yaml:"timeout" unit:"seconds" doc:"longest attempt"`
	Omit        []string       `yaml:"omit" doc:"sampling fields that the model does not take, as the API calls them"`
	Extra       map[string]any `yaml:"extra" doc:"further fields of every request"`
	JPEG        int            `yaml:"jpeg" doc:"quality from 1 to 100 with which pictures are sent; 0 sends PNG"`
	MaxSide     int            `yaml:"max_side" doc:"pixels to which the longer side of pictures is shrunk; 0 leaves them"`
	Detail      string         `yaml:"detail" doc:"low, high or auto, for openai"`
	Price       EvalPrice      `yaml:"price"`
	Budget      float64        `yaml:"budget" doc:"most that all requests may cost, in the currency of price; 0 is no limit"`

	Engine      string `yaml:"engine" doc:"local: auto, xla, cuda or go"`
	BFloat16    bool   `yaml:"bfloat16" doc:"local: compute activations in bfloat16"`
	CacheTokens int    `yaml:"cache_tokens" doc:"local: smallest length of a conversation's cache in tokens"`
	Adapter     string `yaml:"lora_adapter_path" doc:"local: folder of an adapter in PEFT's layout"`
}

// EvalPrice is what tokens cost.
type EvalPrice struct {
	Prompt     float64 `yaml:"prompt" doc:"cost of a million prompt tokens, in any currency"`
	Completion float64 `yaml:"completion" doc:"cost of a million completion tokens"`
	CacheRead  float64 `yaml:"cache_read" doc:"cost of a million prompt tokens from the service's cache; 0 is that of prompt"`
	CacheWrite float64 `yaml:"cache_write" doc:"cost of a million prompt tokens that go there; 0 is that of prompt"`
}

// DefaultBackend returns the defaults of a backend.
func DefaultBackend() BackendConfig {
	return BackendConfig{Concurrency: 8, Retries: 6, MinBackoff: 0.5, MaxBackoff: 8, Timeout: 300, Engine: "auto"}
}

// ChatConfig is how responses are sampled.
type ChatConfig struct {
	Temperature float64  `yaml:"temperature" doc:"divides the logits; 0 takes the most likely token"`
	TopP        float64  `yaml:"top_p" doc:"keep the smallest set of tokens with this probability; 1 keeps all"`
	TopK        int      `yaml:"top_k" doc:"keep the k most likely tokens; -1 or 0 keeps all"`
	MinP        float64  `yaml:"min_p" doc:"drop tokens below this share of the most likely one"`
	MaxTokens   int      `yaml:"max_tokens" doc:"longest response where an entry has no response_length_per_turn, which else bounds it"`
	Stop        []string `yaml:"stop" doc:"texts that end a response"`
}

var evalForeign = []settings.Foreign{
	{Key: "defaults.*", Kind: settings.Noted, About: "backends have their defaults here: vagen eval --explain lists them"},
	{Key: "backends.*.api_key_env", Kind: settings.Refused, About: "it is called key_env"},
}

// IsEval reports whether a file is a configuration of an evaluation, by its keys at
// the top; else it is one that trains.
func IsEval(raw []byte) bool {
	_, _, names := splitEnvs(raw)
	return slices.ContainsFunc(names, func(n string) bool {
		return n == "envs" || n == "datasets" || n == "backends" || n == "experiment" || n == "default_chat_config"
	})
}

var topKey = regexp.MustCompile(`^["']?([A-Za-z_][\w-]*)["']?\s*:`)

// splitEnvs parts the list envs from the other keys at the top. Lines keep their
// numbers.
func splitEnvs(raw []byte) (envs, rest []byte, names []string) {
	in := false
	for line := range bytes.Lines(raw) {
		if m := topKey.FindSubmatch(line); m != nil {
			names = append(names, string(m[1]))
			in = string(m[1]) == "envs"
		}
		if in {
			envs, rest = append(envs, line...), append(rest, '\n')
		} else {
			envs, rest = append(envs, '\n'), append(rest, line...)
		}
	}
	return envs, rest, names
}

var fromEnv = regexp.MustCompile(`\$\{oc\.env:([A-Za-z_]\w*)(?:,([^}\n]*))?\}`)

// surroundings puts variables of the environment where a text has ${oc.env:NAME} or
// ${oc.env:NAME,default}.
func surroundings(raw []byte, getenv func(string) (string, bool)) (out []byte, faults []error) {
	out = fromEnv.ReplaceAllFunc(raw, func(text []byte) []byte {
		m := fromEnv.FindSubmatch(text)
		if v, ok := getenv(string(m[1])); ok && !strings.ContainsAny(v, "\n\r") {
			return []byte(v)
		}
		if !bytes.Contains(text, []byte(",")) {
			faults = append(faults, fmt.Errorf("%s: the environment has no %s, and there is no default", text, m[1]))
		}
		return m[2]
	})
	return out, faults
}

// LoadEval reads an evaluation. It reports all mistakes at once, which wrap
// vagen.ErrConfig.
func LoadEval(path string, overrides []string, getenv func(string) (string, bool)) (*Eval, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", config.ErrConfig, err)
	}
	envs, rest, _ := splitEnvs(raw)
	e := &Eval{Config: DefaultEval(), dir: filepath.Dir(path), getenv: getenv}
	l := settings.NewLoader(&e.Config, evalForeign)
	rest, faults := surroundings(rest, getenv)
	l.YAML(path, rest)
	l.Overrides(overrides)
	notes, _, problems := l.Finish()
	for _, err := range faults {
		problems = append(problems, fmt.Errorf("%s: %w", path, err))
	}
	for _, n := range notes {
		e.Notes = append(e.Notes, n.Key+": "+n.About)
	}
	problems = append(problems, e.check()...)
	if len(bytes.TrimSpace(envs)) > 0 {
		problems = append(problems, e.readEnvs(path, envs)...)
	}
	problems = append(problems, e.readFiles()...)
	if len(e.parts) == 0 && len(problems) == 0 {
		problems = append(problems, errors.New("there are no environments: neither envs nor datasets"))
	}
	if len(problems) == 0 {
		problems = append(problems, e.makeTasks()...)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%w: %w", config.ErrConfig, errors.Join(problems...))
	}
	return e, nil
}

// check looks at what entries have no part in.
func (e *Eval) check() []error {
	var out []error
	say := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	c := &e.Config
	for _, n := range []struct {
		key string
		x   int
	}{{"run.max_concurrent_jobs", c.Run.Jobs}, {"run.workers", c.Run.Workers}, {"experiment.default_max_turns", c.Experiment.MaxTurns}} {
		if n.x < 1 {
			say("%s is %d, must be positive", n.key, n.x)
		}
	}
	if !(c.Run.EnvTimeout >= 0 && c.Run.EpisodeTimeout >= 0) {
		say("run.env_timeout is %v and run.episode_timeout %v, must not be negative", c.Run.EnvTimeout, c.Run.EpisodeTimeout)
	}
	if modes := []string{string(evaluate.SkipCompleted), string(evaluate.ResumeOff), string(evaluate.ForceRerun)}; !slices.Contains(modes, c.Run.Resume) {
		say("run.resume is %q, must be one of %q", c.Run.Resume, modes)
	}
	if c.Split != "train" && c.Split != "test" {
		say("split is %q, must be train or test", c.Split)
	}
	if c.Experiment.DumpDir == "" {
		say("experiment.dump_dir is empty")
	}
	backend, problems := e.backend()
	e.Backend = backend
	return append(out, problems...)
}

// backend reads the block of the backend that plays.
func (e *Eval) backend() (BackendConfig, []error) {
	name := e.Config.Run.Backend
	b := DefaultBackend()
	block, ok := e.Config.Backends[name].(map[string]any)
	if !ok {
		var known []string
		for n := range e.Config.Backends {
			known = append(known, n)
		}
		slices.Sort(known)
		return b, []error{fmt.Errorf("run.backend is %q, but backends has no such block; there are %q", name, known)}
	}
	var out []error
	say := func(format string, args ...any) {
		out = append(out, fmt.Errorf("backends.%s: %w", name, fmt.Errorf(format, args...)))
	}
	given := map[string]any{}
	for key, v := range block {
		if v != nil { // null leaves the default
			given[key] = v
		}
	}
	for _, err := range settings.Fill(&b, given) {
		say("%w", err)
	}
	if b.APIKey != "" && b.APIKey != "EMPTY" {
		say("api_key has a key in it: put it into an environment variable and name that in key_env")
	}
	if b.API == "" {
		switch strings.ToLower(name) {
		case "claude", "anthropic":
			b.API = "anthropic"
		case "gemini":
			b.API = "gemini"
		case local:
			b.API = local
		case "openai_responses", "azure_responses":
			b.API = strings.ToLower(name) // refused below
		case "sglang", "vllm", "together", "azure":
			b.API = "openai"
			if b.BaseURL == "" {
				say("base_url is empty, which is the address of OpenAI: set that of %s, or api: openai if OpenAI is meant", name)
			}
		default:
			b.API = "openai"
		}
	}
	if apis := []string{"openai", "anthropic", "gemini", local}; strings.HasSuffix(b.API, "_responses") {
		say("api is %q, which is not supported: api openai asks the same models by chat completions, allowed are %q", b.API, apis)
	} else if !slices.Contains(apis, b.API) {
		say("api is %q, must be one of %q", b.API, apis)
	}
	if b.Model == "" {
		say("model is empty")
	}
	if b.Name == "" {
		b.Name = b.Model
	}
	return b, out
}

// local is the backend of a model in this process.
const local = "local"

// at is a path as the configuration means it.
func (e *Eval) at(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(e.dir, path)
}
