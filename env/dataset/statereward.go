package dataset

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"vagen/internal/settings"
)

// StateReward is the block state_reward of an environment's options: pay for what
// a response says about the state before and after the turn.
type StateReward struct {
	Estimation Section `yaml:"state_estimation"`      // the state before the turn
	Transition Section `yaml:"transition_prediction"` // the state after it
	// Base is subtracted from each score, and the rest is scaled so that a perfect
	// one stays 1: what guessing reaches earns nothing.
	Base        float64 `yaml:"score_base"`
	JudgeURL    string  `yaml:"judge_base_url"`
	JudgeModel  string  `yaml:"judge_model"`
	Site        string  `yaml:"credit_site"` // section_end, per_span, which is its old name, or turn_end
	Aggregation string  `yaml:"aggregation"` // per_turn or episode_mean
	Scorer      string  `yaml:"scorer"`      // judge or exact
}

// Section says whether and how much one kind of statement is paid for.
type Section struct {
	Enable bool    `yaml:"enable"`
	Reward float64 `yaml:"reward"` // of a perfect statement, per turn
}

// DefaultStateReward returns the block without entries.
func DefaultStateReward() StateReward {
	return StateReward{Base: 0.334, Site: "section_end", Aggregation: "per_turn", Scorer: "judge"}
}

// takeStateReward separates the block from an environment's own options.
func takeStateReward(options map[string]any) (*StateReward, []error) {
	v, ok := options["state_reward"]
	if !ok {
		return nil, nil
	}
	delete(options, "state_reward")
	block, ok := v.(map[string]any)
	if !ok {
		return nil, []error{fmt.Errorf("config.state_reward is %v, must be a mapping", v)}
	}
	s := DefaultStateReward()
	faults := settings.Fill(&s, block)
	if len(faults) == 0 {
		faults = s.problems()
	}
	for i, err := range faults {
		faults[i] = fmt.Errorf("config.state_reward: %w", err)
	}
	return &s, faults
}

// problems are what is wrong with the block.
func (s *StateReward) problems() []error {
	var out []error
	bad := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	for _, c := range []struct {
		key, value string
		allowed    []string
	}{
		{"credit_site", s.Site, []string{"section_end", "per_span", "turn_end"}},
		{"aggregation", s.Aggregation, []string{"per_turn", "episode_mean"}},
		{"scorer", s.Scorer, []string{"judge", "exact"}},
	} {
		if !slices.Contains(c.allowed, c.value) {
			bad("%s is %q, must be one of %s", c.key, c.value, strings.Join(c.allowed, ", "))
		}
	}
	for _, n := range []struct {
		key   string
		value float64
	}{{"state_estimation.reward", s.Estimation.Reward}, {"transition_prediction.reward", s.Transition.Reward}} {
		if math.IsNaN(n.value) || math.IsInf(n.value, 0) {
			bad("%s is %v, must be finite", n.key, n.value)
		}
	}
	if !(s.Base >= 0 && s.Base < 1) {
		bad("score_base is %v, must be in [0, 1)", s.Base)
	}
	if s.Scorer != "judge" || !s.Estimation.Enable && !s.Transition.Enable {
		return out
	}
	if u, err := url.Parse(s.JudgeURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		bad("judge_base_url is %q, must be of the form http://host:port/v1", s.JudgeURL)
	}
	if s.JudgeModel == "" {
		bad("judge_model is missing; the judge needs it")
	}
	return out
}

// tree is the block as files have it.
func (s *StateReward) tree() map[string]any {
	section := func(c Section) map[string]any { return map[string]any{"enable": c.Enable, "reward": c.Reward} }
	return map[string]any{
		"state_estimation": section(s.Estimation), "transition_prediction": section(s.Transition),
		"score_base": s.Base, "judge_base_url": s.JudgeURL, "judge_model": s.JudgeModel,
		"credit_site": s.Site, "aggregation": s.Aggregation, "scorer": s.Scorer,
	}
}
