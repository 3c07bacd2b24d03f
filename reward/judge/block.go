package judge

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"vagen/internal/settings"
)

// StateReward is the block state_reward among an environment's options: pay for
// what a response says about the state before and after the turn.
type StateReward struct {
	On         *bool   `yaml:"enabled"`               // false pays for nothing; nil leaves it to the sections
	Estimation Section `yaml:"state_estimation"`      // the state before the turn
	Transition Section `yaml:"transition_prediction"` // the state after it
	// Base is subtracted from each score, and the rest is scaled so that a perfect
	// one stays 1: what guessing reaches earns nothing.
	Base        float64 `yaml:"score_base"`
	JudgeURL    string  `yaml:"judge_base_url" kind:"address"` // of a service that speaks OpenAI's protocol
	JudgeModel  string  `yaml:"judge_model" kind:"address"`    // as the service calls it
	Site        string  `yaml:"credit_site" kind:"text"`       // SectionEnd, per_span, which is its old name, or TurnEnd
	Aggregation string  `yaml:"aggregation" kind:"text"`       // PerTurn or EpisodeMean
	Scorer      string  `yaml:"scorer" kind:"text"`            // ByModel or ByRules
}

// Section says whether and how much one kind of statement is paid for.
type Section struct {
	Enable bool    `yaml:"enable"` // pay for such statements
	Reward float64 `yaml:"reward"` // of a perfect statement, per turn
}

// The values of StateReward's fields of text.
const (
	SectionEnd  = "section_end"
	TurnEnd     = "turn_end"
	PerTurn     = "per_turn"
	EpisodeMean = "episode_mean"
	ByModel     = "judge"
	ByRules     = "exact"

	perSpan = "per_span"
)

// Key is the name of the block.
const Key = "state_reward"

// The options by which environments take what the block says.
const (
	optionUse        = "use_state_reward"
	optionEstimation = "grounding_reward_weight"
	optionTransition = "worldmodeling_reward_weight"
)

// DefaultStateReward returns the block without entries.
func DefaultStateReward() StateReward {
	return StateReward{Base: 0.334, Site: SectionEnd, Aggregation: PerTurn, Scorer: ByModel}
}

// TakeStateReward separates the block from an environment's other options, of
// which it returns a copy. Without a block it returns nil and the options as they
// are; null and false stand for none. The error names everything that is wrong with the block.
func TakeStateReward(options map[string]any) (*StateReward, map[string]any, error) {
	v, ok := options[Key]
	if !ok {
		return nil, options, nil
	}
	rest := maps.Clone(options)
	delete(rest, Key)
	if v == nil || v == false {
		return nil, rest, nil
	}
	block, ok := v.(map[string]any)
	if !ok {
		return nil, rest, fmt.Errorf("%s is %v, must be a mapping, false or null", Key, v)
	}
	s := DefaultStateReward()
	faults := settings.Fill(&s, block)
	if len(faults) == 0 {
		faults = s.Problems()
	}
	for i, err := range faults {
		faults[i] = fmt.Errorf("%s: %w", Key, err)
	}
	if s.Site == perSpan {
		s.Site = SectionEnd
	}
	return &s, rest, errors.Join(faults...)
}

// Enabled reports whether anything is paid for.
func (s *StateReward) Enabled() bool {
	return s != nil && (s.On == nil || *s.On) && (s.Estimation.Enable || s.Transition.Enable)
}

// Problems are what is wrong with the block.
func (s *StateReward) Problems() []error {
	var out []error
	bad := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	for _, c := range []struct {
		key, value string
		allowed    []string
	}{
		{"credit_site", s.Site, []string{SectionEnd, perSpan, TurnEnd}},
		{"aggregation", s.Aggregation, []string{PerTurn, EpisodeMean}},
		{"scorer", s.Scorer, []string{ByModel, ByRules}},
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
	if s.Scorer != ByModel || !s.Enabled() {
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

// Into returns an environment's options with what the block asks for: claims about
// the sections that are paid for. Options that say the same by themselves
// contradict it.
func (s *StateReward) Into(options map[string]any) (map[string]any, error) {
	out := maps.Clone(options)
	if out == nil {
		out = make(map[string]any)
	}
	for _, name := range []string{optionUse, optionEstimation, optionTransition} {
		if _, given := out[name]; given {
			return nil, fmt.Errorf("%s and %s are both given; the block says it all", Key, name)
		}
	}
	weight := func(c Section) float64 {
		if !c.Enable {
			return 0
		}
		return c.Reward
	}
	out[optionUse], out[optionEstimation], out[optionTransition] = true, weight(s.Estimation), weight(s.Transition)
	return out, nil
}

// Tree returns the block as files have it.
func (s *StateReward) Tree() map[string]any {
	section := func(c Section) map[string]any { return map[string]any{"enable": c.Enable, "reward": c.Reward} }
	out := map[string]any{
		"state_estimation": section(s.Estimation), "transition_prediction": section(s.Transition),
		"score_base": s.Base, "judge_base_url": s.JudgeURL, "judge_model": s.JudgeModel,
		"credit_site": s.Site, "aggregation": s.Aggregation, "scorer": s.Scorer,
	}
	if s.On != nil {
		out["enabled"] = *s.On
	}
	return out
}
