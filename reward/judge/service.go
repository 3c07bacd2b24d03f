package judge

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"vagen/internal/field"
	"vagen/reward"
	lists "vagen/reward/internal/answer"
)

// Service sets how the language model of the scorer ByModel is asked. Its address and
// name are StateReward.JudgeURL and JudgeModel, unless Model is set.
type Service struct {
	// Model is the folder of a model that this process loads: then there is no service, and what limits
	// one must have its default. Concurrency is how many claims the model reads at once.
	Model string `yaml:"model" kind:"path" doc:"folder of a model that this process loads, instead of judge_base_url and judge_model"`
	// KeyEnv is the environment variable that holds the key, in capitals; "" sends no key.
	KeyEnv            string  `yaml:"key_env" kind:"secret" holds:"variable" doc:"environment variable with its key; empty sends none"`
	Concurrency       int     `yaml:"concurrency" range:"1,1024" doc:"requests at once"`
	RequestsPerMinute int     `yaml:"requests_per_minute" range:"0,1e+09" doc:"most requests in a minute, retries included; 0 is no limit"`
	TokensPerMinute   int     `yaml:"tokens_per_minute" range:"0,1e+12" doc:"most tokens in a minute, estimated until the service has counted; 0 is no limit"`
	Timeout           float64 `yaml:"timeout" range:"0.001,3600" doc:"seconds that an attempt may take"`
	Retries           int     `yaml:"retries" range:"0,20" doc:"attempts after the first; then the statement has no score"`
	// StepBudget is how many seconds of a training step may pass while the judge is
	// being waited for. Then the step's remaining claims have no score. 0 is no limit.
	StepBudget float64 `yaml:"step_budget" range:"0,1e+06" doc:"seconds of a training step that may pass waiting for it; then statements have no score. 0 is no limit"`
	// After BreakerFailures attempts in a row that found no working service, nothing is
	// sent for BreakerPause seconds, and claims have no score at once; then one request
	// tests whether the service works again. 0 failures disables this.
	BreakerFailures int     `yaml:"breaker_failures" range:"0,1e+06" doc:"after this many failed attempts in a row it is not asked for breaker_pause; 0 never stops"`
	BreakerPause    float64 `yaml:"breaker_pause" range:"0.001,1e+06" doc:"seconds until a request tests whether it works again; until then statements have no score"`
	// Cache is a folder in which valid answers are kept, at most CacheMB megabytes. Several
	// processes may share it. "" keeps none.
	Cache   string `yaml:"cache" kind:"path" doc:"folder in which valid answers are kept, also for other processes; empty keeps none"`
	CacheMB int    `yaml:"cache_mb" range:"1,1e+06" doc:"size of that folder in megabytes; what was not used for longest is removed"`
}

// DefaultService returns the limits of the systems that the blocks come from, 32 requests at
// once and 60 s each, and a breaker and a budget, which those do not have.
func DefaultService() Service {
	return Service{Concurrency: 32, Timeout: 60, Retries: 3, StepBudget: 300, BreakerFailures: 8, BreakerPause: 30,
		CacheMB: 256}
}

// check reports the errors of the settings that their tags do not say.
func (s *Service) check(c *field.Checks) {
	if alone := (Service{
		Model: s.Model, Concurrency: s.Concurrency, StepBudget: s.StepBudget, Cache: s.Cache, CacheMB: s.CacheMB,
	}); s.Model != "" {
		d := DefaultService()
		alone.Timeout, alone.Retries, alone.BreakerFailures, alone.BreakerPause = d.Timeout, d.Retries, d.BreakerFailures,
			d.BreakerPause
		if *s != alone {
			c.Say("{judge.model} is a model of this process, for which only judge.concurrency, judge.step_budget, judge.cache and " +
				"judge.cache_mb may be set: the other keys of judge are about a service")
		}
	}
}

// ErrAnswer is wrapped by the errors of CheckAnswer.
var ErrAnswer = errors.New("the judge's answer cannot be used")

// CheckAnswer returns an error if the answer to a prompt of Model is not of the form that
// the prompt asks for: a list whose elements all name an object, and have only directions
// that exist; or a verdict, given once or always the same. A thought in <think> tags in front of it is
// not read. Score counts such answers as 0,
// as the original systems do; a Completer that returns this error leaves them without a
// score.
func CheckAnswer(prompt, answer string) error {
	answer = unthought(answer)
	if !strings.HasSuffix(prompt, relationsEnd) {
		yes, no := 0, 0
		for _, found := range verdictPattern.FindAllStringSubmatch(answer, -1) {
			if strings.EqualFold(found[1], "yes") {
				yes++
			} else {
				no++
			}
		}
		if (yes == 0) == (no == 0) {
			return fmt.Errorf("judge: %w: it has %d times yes and %d times no", ErrAnswer, yes, no)
		}
		return nil
	}
	list, ok := lists.List(answer)
	if text := []byte(strings.TrimSpace(answer)); json.Valid(text) { // and nothing around it
		var all []map[string]any
		ok = json.Unmarshal(text, &all) == nil && all != nil
	}
	if !ok {
		return fmt.Errorf("judge: %w: it is no list of objects", ErrAnswer)
	}
	for i, object := range list {
		name, _ := object["object_id"].(string)
		vertical, v := stated(object, "vertical_relation", reward.Above, reward.Below, reward.Same)
		horizontal, h := stated(object, "horizontal_relation", reward.Left, reward.Right, reward.Same)
		if name == "" || !v || !h || !vertical && !horizontal {
			return fmt.Errorf("judge: %w: element %d has no object_id, no direction, or one that does not exist", ErrAnswer, i)
		}
	}
	return nil
}

// stated reports whether an object has a field, and whether its value is null or allowed.
func stated(object map[string]any, field string, allowed ...string) (given, valid bool) {
	value, given := object[field]
	text, isText := value.(string)
	return given, value == nil || isText && slices.Contains(allowed, text)
}
