package config

import (
	"vagen/internal/origin"
	"vagen/policy/loss"
)

// ServersConfig names servers of vLLM or SGLang, and how they are used.
type ServersConfig struct {
	Addresses []string `yaml:"addresses" default:"[]" idle:"" doc:"base URLs of the servers, such as http://host:8000; with none, the model in this process generates the responses, or scores as the reference policy"`
	Model     string   `yaml:"model" null:"" doc:"name under which vLLM serves the base model; null is the only one that it serves"`
	KeyEnv    string   `yaml:"api_key_env" null:"" holds:"variable" doc:"environment variable with the servers' API key; null sends none"`

	Timeout    float64 `yaml:"timeout" default:"600" range:">0,1e6" must:"be above 0 and at most 1e6" unit:"seconds" doc:"time limit of a response, or of the scores of a row; one that takes longer is aborted and requested again"`
	Attempts   int     `yaml:"attempts" default:"6" count:"positive" doc:"how often a response is requested before its episode is lost, or the scores of a row before the run ends"`
	InFlight   int     `yaml:"max_in_flight" default:"256" count:"positive" doc:"requests that a server gets at a time; further ones wait"`
	EjectAfter int     `yaml:"eject_after" default:"3" count:"positive" doc:"failures in a row after which a server is not used until a probe succeeds"`
	Startup    float64 `yaml:"start_timeout" default:"120" range:"0,1e+06" unit:"seconds" doc:"how long the run waits at its start for servers that do not answer yet or are not ready, such as those that are loading a model; 0 asks them once"`
	Outage     float64 `yaml:"outage_timeout" default:"300" range:">0,1e6" must:"be above 0 and at most 1e6" unit:"seconds" doc:"how long requests wait when no server is healthy before the run ends"`
}

// EngineConfig names the servers that generate responses with actor_rollout_ref.rollout.name
// vllm or sglang, and how they are used.
type EngineConfig struct {
	ServersConfig `yaml:",inline"`
	SyncTimeout   float64 `yaml:"sync_timeout" default:"600" range:">0,1e6" must:"be above 0 and at most 1e6" unit:"seconds" doc:"time limit for a server to load new weights"`

	Mixed     string `yaml:"mixed_versions" default:"drop" oneof:"drop keep correct" doc:"what becomes of a response that other weights than the current ones wrote, wholly or in part: drop generates it again, keep uses it, correct uses it and needs algorithm.rollout_correction.rollout_is, whose importance weights correct its tokens"`
	SyncDir   string `yaml:"sync_dir" null:"" doc:"folder for weights on their way to the servers, shared with them; null is the folder engine of the run"`
	ServerDir string `yaml:"server_sync_dir" null:"" doc:"path of sync_dir as the servers see it; null is the same path"`

	CheckResponses int     `yaml:"check_responses" default:"32" count:"0" doc:"responses whose log-probs are compared with the learner's before training; 0 compares none"`
	CheckLimit     float64 `yaml:"check_limit" default:"0.05" idle:"actor_rollout_ref.rollout.engine.addresses is empty; actor_rollout_ref.rollout.engine.check_responses is 0" range:"0,1e+12" doc:"largest mean absolute difference of these log-probs with which the run starts"`
}

// RefEngineConfig names the servers of a model that takes the place of the reference policy.
type RefEngineConfig struct {
	Name          string `yaml:"name" default:"vllm" oneof:"vllm sglang" doc:"program of the servers: vllm or sglang"`
	ServersConfig `yaml:",inline"`
}

// ServesReference reports whether servers score tokens in the place of the reference policy.
func (c *Config) ServesReference() bool {
	return c.UsesReference() && len(c.Agent.Ref.Engine.Addresses) > 0 && c.Trainer.Stage != StageSFT
}

// ReferencePath is the folder of a model that takes the place of the reference policy in this process, "" for none.
func (c *Config) ReferencePath() string {
	if !c.UsesReference() || c.ServesReference() || c.TeachesItself() || c.Trainer.Stage == StageSFT {
		return ""
	}
	return c.Agent.Ref.Model.Path
}

// UsesEngine reports whether servers generate the responses.
func (c *Config) UsesEngine() bool { return len(c.Agent.Rollout.Engine.Addresses) > 0 }

// The settings of servers that generate, and of servers that score as the reference policy.
const (
	EngineKey    = "actor_rollout_ref.rollout.engine"
	RefEngineKey = "actor_rollout_ref.ref.engine"
)

// addresses checks the addresses of servers.
func (v *validator) addresses(key string, s *ServersConfig) {
	for _, a := range s.Addresses {
		u, ok := origin.Parse(a)
		if !ok || u.User != nil || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
			v.Say("{%s.addresses} has an entry that is not a URL such as http://host:8000 without credentials and query",
				key) // it may contain a secret
		}
	}
}

// refEngine checks the settings of servers in the place of the reference policy.
func (v *validator) refEngine(c *Config, p loss.Policy) {
	if !c.ServesReference() {
		return
	}
	v.addresses(RefEngineKey, &c.Agent.Ref.Engine.ServersConfig)
	if path := c.Agent.Ref.Model.Path; path != "" {
		v.Say("{actor_rollout_ref.ref.engine.addresses} has servers, but {actor_rollout_ref.ref.model.path} is %s: name only one of them", path)
	}
	if x := c.Agent.Rollout.Temperature; x != 1 {
		v.Say("{actor_rollout_ref.ref.engine.addresses} has servers, which score at temperature 1, but {actor_rollout_ref.rollout.temperature} is %v", x)
	}
	v.chosen(&c.Agent.Actor.Loss, p, "needs log-probs that the servers in {actor_rollout_ref.ref.engine.addresses} do not return")
}

// engine checks the settings of servers.
func (v *validator) engine(c *Config) {
	e, r := &c.Agent.Rollout.Engine, &c.Agent.Rollout
	if !c.UsesEngine() {
		return
	}
	v.addresses(EngineKey, &e.ServersConfig)
	if r.Name != "vllm" && r.Name != "sglang" {
		v.Say("{actor_rollout_ref.rollout.engine.addresses} has %d servers, but {actor_rollout_ref.rollout.name} is %s, must be vllm or sglang", len(e.Addresses), r.Name)
	}
	if e.Mixed == "correct" && c.Algorithm.Correction.Level == nil {
		v.Say("{actor_rollout_ref.rollout.engine.mixed_versions} is correct, but {algorithm.rollout_correction.rollout_is} is null: set it to token or sequence")
	}
	if r.Thinking > 0 {
		v.Say("{actor_rollout_ref.rollout.thinking_token_budget} is %d, but {actor_rollout_ref.rollout.engine.addresses} has servers, which cannot insert the closing tag", r.Thinking)
	}
	if r.TopK > 0 || r.TopP > 0 && r.TopP < 1 {
		v.Say("{actor_rollout_ref.rollout.top_k} is %d and {actor_rollout_ref.rollout.top_p} is %v, but {actor_rollout_ref.rollout.engine.addresses} has servers, which then report log-probs of the limited distribution: train with -1 and 1", r.TopK, r.TopP)
	}
}

// engineNote returns what a name of another engine means without servers.
func (c *Config) engineNote() string {
	return "no servers are named in " + EngineKey +
		".addresses, so responses are generated by the trained model in this process (xla): " +
		c.Agent.Rollout.Name + " is not started, and its settings have no effect"
}
