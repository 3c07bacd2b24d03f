package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"vagen/internal/field"
)

// ErrFile is wrapped by errors about the content of a file.
var ErrFile = errors.New("bad dataset")

// Spec is an entry of a list of environments: an environment with its options and seeds.
// The struct tags are the keys in files.
type Spec struct {
	Name   string         `yaml:"name"` // of the environment
	Count  int            `yaml:"n_envs"`
	Config map[string]any `yaml:"config"` // without the block state_reward
	// Seed says how seeds are drawn: [base], [low, high] or [low, high, limit]. Empty is
	// [0]. SeedList, with at least Count numbers, overrides it.
	Seed     []int64 `yaml:"seed"`
	SeedList []int64 `yaml:"seed_list"`
	Limits
	StateReward *StateReward // config.state_reward
	// In training, Weight is the entry's share of the start states relative to the other
	// entries', and RewardScale multiplies the rewards. Nil is the number of episodes and 1.
	Weight      *float64 `yaml:"weight" range:">0,1e6" must:"be above 0 and at most 1e6"`
	RewardScale *float64 `yaml:"reward_scale" range:">0,1e6" must:"be above 0 and at most 1e6"`

	Tag    string `yaml:"tag_id"`      // name of the results of an evaluation, unique for each entry
	Source string `yaml:"data_source"` // groups metrics; "" is "default"
	Split  string `yaml:"split"`       // "" is "default"

	// Settings for evaluation. In training they belong to the trainer's configuration. 0, ""
	// and nil mean the caller's setting.
	Harness        string         `yaml:"harness"`     // concat, no_concat, compact or one of the caller's
	Chat           map[string]any `yaml:"chat_config"` // sampling of models behind an API
	CompactTokens  int            `yaml:"compact_budget" count:"0"`
	SummaryTokens  int            `yaml:"compact_summary_budget" count:"0"`
	TokensPerImage int            `yaml:"tokens_per_image" count:"0"` // if they are estimated
	Tokenizer      string         `yaml:"tokenizer"`                  // if tokens are counted

	env  string // name in the registry
	line string // prefix of messages: the entry's line
}

// File is a list of environments.
type File struct {
	Specs []Spec
	// BaseSeed is part of the key of all drawn seeds. A trainer adds data.base_seed.
	BaseSeed int64 // base_seed
}

// Validate returns an error that lists all errors of the entry.
func (s *Spec) Validate() error {
	if faults := s.problems(); len(faults) > 0 {
		return fmt.Errorf("dataset: %w: %w", ErrFile, errors.Join(faults...))
	}
	return nil
}

func (s *Spec) problems() []error {
	var c field.Checks
	for _, n := range []struct{ key, value string }{{"name", s.Name}, {"tag_id", s.Tag}, {"data_source", s.Source},
		{"split", s.Split}} {
		if why := badName(n.value); why != "" && (n.value != "" || n.key == "name") {
			c.Say("{%s}: %s", n.key, why)
		}
	}
	if s.Count < 1 || s.Count > maxEpisodes {
		c.Bad("n_envs", "%d, must be from 1 to %d", s.Count, maxEpisodes)
	} else if s.SeedList != nil {
		if len(s.SeedList) < s.Count {
			c.Say("{seed_list} has %d seeds for %d episodes", len(s.SeedList), s.Count)
		}
	} else if why := directiveProblem(s.directive(), s.Count); why != "" {
		c.Say("{seed}: %s", why)
	}
	c.Struct(s, "yaml")
	s.Limits.check(&c)
	if s.StateReward != nil {
		for _, err := range s.StateReward.Problems() {
			c.Say("config.state_reward: %w", err)
		}
	}
	return c.Errors()
}

// check reports the errors of the limits that their tags do not say.
func (l *Limits) check(c *field.Checks) {
	for i, stop := range l.Stop {
		if stop == "" {
			c.Say("stop_strings[%d] is empty", i)
		}
	}
}

// Validate returns an error that lists all errors of the entries. Tags must differ by more
// than case.
func (f *File) Validate() error {
	var faults []error
	for i := range f.Specs {
		for _, err := range f.Specs[i].problems() {
			faults = append(faults, f.fault(i, err))
		}
	}
	return f.joinFaults(faults)
}

// fault is an error about an entry.
func (f *File) fault(i int, err error) error {
	return fmt.Errorf("%senvs[%d]: %w", f.Specs[i].line, i, err)
}

// joinFaults adds errors about several entries, such as equal tags, to those of single
// entries, and returns them as one error.
func (f *File) joinFaults(faults []error) error {
	total := 0
	tags := make(map[string]int)
	for i, s := range f.Specs {
		total += max(min(s.Count, maxEpisodes+1), 0)
		if s.Tag == "" {
			continue
		}
		if first, taken := tags[strings.ToLower(s.Tag)]; taken {
			faults = append(faults, f.fault(i, fmt.Errorf("tag_id %q is the tag of envs[%d]; results would be mixed", s.Tag,
				first)))
			continue
		}
		tags[strings.ToLower(s.Tag)] = i
	}
	if total > maxEpisodes {
		faults = append(faults, fmt.Errorf("the entries have more than %d episodes, the maximum", maxEpisodes))
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("dataset: %w: %w", ErrFile, errors.Join(faults...))
}

// Episodes expands the entries, in their order.
func (f *File) Episodes() ([]Episode, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	var out []Episode
	for i := range f.Specs {
		s := &f.Specs[i]
		e := Episode{
			Name: s.Name, Env: cmp.Or(s.env, s.Name), Config: s.Config, Limits: s.Limits, StateReward: s.StateReward,
			Tag: s.Tag, Source: cmp.Or(s.Source, "default"), Split: cmp.Or(s.Split, "default"), Entry: i,
		}
		if s.Weight != nil {
			e.Weight = *s.Weight
		}
		if s.RewardScale != nil {
			e.RewardScale = *s.RewardScale
		}
		for _, e.Seed = range s.seeds(f.BaseSeed, i) {
			out = append(out, e)
		}
	}
	return out, nil
}
