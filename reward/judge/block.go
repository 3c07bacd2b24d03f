package judge

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/url"
	"reflect"
	"strings"

	"vagen/internal/field"
	"vagen/internal/settings"
	"vagen/reward"
)

// StateReward is the block state_reward of an environment's options: reward for what
// a response states about the state before and after the turn.
type StateReward struct {
	// On is false to switch all rewards off; nil leaves it to the sections.
	On *bool `yaml:"enabled" doc:"false switches the block off, whatever its sections say"`
	// Estimation is about the state before the turn, Transition about the state after it.
	Estimation Section `yaml:"state_estimation" doc:"pay for statements about the state before the turn, and how much for a perfect one"`
	Transition Section `yaml:"transition_prediction" doc:"pay for statements about the state after the turn, and how much for a perfect one"`
	// Base is subtracted from each score, and the rest is scaled so that a perfect
	// score stays 1. It is the score of guessing, which is not rewarded.
	Base float64 `yaml:"score_base" doc:"score of guessing, which earns nothing; 0 is off"`
	// Scorer is ByModel, ByRules or ByExactRules.
	Scorer string `yaml:"scorer" kind:"text" oneof:"judge rules exact" doc:"judge asks a language model what a statement says, rules reads it by fixed rules, exact by the literal rules of VAGEN next"`
	// JudgeURL is of a service that speaks OpenAI's protocol, JudgeModel what the service calls the model.
	JudgeURL   string `yaml:"judge_base_url" kind:"address" doc:"OpenAI-compatible address of the model that scorer judge asks"`
	JudgeModel string `yaml:"judge_model" kind:"address" doc:"name of the model at judge_base_url"`
	// Scoring is how relations are compared with the truth: HalfAgreements, or
	// ExactMatches, which is the legacy system's score of Sokoban. FrozenLake supports
	// it, too, with holes instead of boxes; other environments do not.
	Scoring string `yaml:"scoring" kind:"text" oneof:"half_agreements exact_matches" doc:"half_agreements: half a point per equal direction; exact_matches: the legacy score of Sokoban, for sokoban and frozenlake"`
	// Guard is whether Scoring.Guarded is set: GuardOn, GuardOff, or GuardAuto, which is on
	// for ByRules, and off for the scorers of VAGEN.
	Guard string `yaml:"guard" kind:"text" oneof:"auto on off" doc:"on: nothing for turns that leave the state as it was and for what was as true a turn earlier, and less for more objects than there are; off: as in VAGEN; auto: on with the scorer rules"`
	// Phrases is of ExactMatches.
	Phrases StockPhrases `yaml:"stock_phrases" doc:"with exact_matches: of the texts kept, the top most frequent score -penalty unless both F1 values sum to enough; top 0 is off"`
	// Site is SectionEnd, per_span, which is its old name, or TurnEnd.
	Site string `yaml:"credit_site" kind:"text" oneof:"section_end per_span turn_end" doc:"section_end pays at the statement's last token, turn_end at the turn's"`
	// Aggregation is PerTurn or EpisodeMean.
	Aggregation string  `yaml:"aggregation" kind:"text" oneof:"per_turn episode_mean" doc:"per_turn, or episode_mean: scaled by turn limit / turns played"`
	Service     Service `yaml:"judge"` // of ByModel
}

// StockPhrases is the penalty for texts that occur often; see
// reward.RepetitionScorer. All environments that share a judge share the memory.
type StockPhrases struct {
	Keep    int     `yaml:"keep"`    // texts remembered for each section
	Top     int     `yaml:"top"`     // the most frequent ones, which are stock phrases; 0 punishes none
	Enough  float64 `yaml:"enough"`  // sum of both F1 values from which a stock phrase is fine
	Penalty float64 `yaml:"penalty"` // subtracted score
}

// Section defines the reward of one kind of statement.
type Section struct {
	Enable bool    `yaml:"enable"` // reward such statements
	Reward float64 `yaml:"reward"` // of a perfect statement, per turn
}

// The values of StateReward's fields of text.
const (
	SectionEnd  = "section_end"
	TurnEnd     = "turn_end"
	PerTurn     = "per_turn"
	EpisodeMean = "episode_mean"
	ByModel     = "judge"
	ByRules     = "rules"
	// ByExactRules reads sentences as literally as VAGEN next: see
	// Rules.Literal. Agents learn its phrases, whether or not a reader agrees with them.
	ByExactRules = "exact"

	HalfAgreements = "half_agreements"
	ExactMatches   = "exact_matches"

	GuardAuto = "auto"
	GuardOn   = "on"
	GuardOff  = "off"

	perSpan = "per_span"
)

// Key is the name of the block.
const Key = "state_reward"

// The options that pass the block's values to environments.
const (
	optionUse        = "use_state_reward"
	optionEstimation = "grounding_reward_weight"
	optionTransition = "worldmodeling_reward_weight"
)

// DefaultStateReward returns the block without entries.
func DefaultStateReward() StateReward {
	legacy := reward.SokobanScorer()
	return StateReward{Base: 0.334, Service: DefaultService(), Site: SectionEnd, Aggregation: PerTurn, Scorer: ByModel,
		Scoring: HalfAgreements, Guard: GuardAuto,
		Phrases: StockPhrases{Keep: legacy.Keep, Top: legacy.TopK, Enough: legacy.Enough, Penalty: legacy.Penalty}}
}

// Scorers returns the scorers that the block selects, as Scoring has them: nil for
// HalfAgreements. Each call returns new ones, which remember nothing yet.
func (s *StateReward) Scorers() map[string]reward.Scorer {
	if s.Scoring != ExactMatches {
		return nil
	}
	scorers := make(map[string]reward.Scorer)
	for name, objects := range exactObjects {
		scorers[name] = &reward.RepetitionScorer{Objects: objects,
			Keep: s.Phrases.Keep, TopK: s.Phrases.Top, Enough: s.Phrases.Enough, Penalty: s.Phrases.Penalty}
	}
	return scorers
}

// exactObjects are the objects that ExactMatches compares, by environment.
var exactObjects = map[string][]string{"sokoban": {"target", "box"}, "frozenlake": {"target", "hole"}}

// Supports returns an error if the named environment does not support the block.
func (s *StateReward) Supports(environment string) error {
	if s.Enabled() && s.Scoring == ExactMatches && exactObjects[strings.ToLower(environment)] == nil {
		return fmt.Errorf("%s: scoring is %s, which is for sokoban and frozenlake alone; %s has %s", Key, ExactMatches,
			environment, HalfAgreements)
	}
	return nil
}

// SameJudge reports whether two enabled blocks can share a judge and differ at most in
// which sections are paid for and how much.
func (s *StateReward) SameJudge(other *StateReward) bool {
	a, b := *cmp.Or(s, new(StateReward)), *cmp.Or(other, new(StateReward))
	a.On, b.On = nil, nil // about payment
	a.Estimation, a.Transition, b.Estimation, b.Transition = Section{}, Section{}, Section{}, Section{}
	return a == b
}

// TakeStateReward separates the block from an environment's other options, which it
// returns as a copy. Without a block it returns nil and the options unchanged; null
// and false mean no block. The error names all errors of the block.
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
	var checks field.Checks
	for _, err := range faults {
		text := fmt.Errorf("%s: %w", Key, field.Under(Key, err))
		if len(field.Keys(err)) > 0 {
			checks.Say("%w", text)
		} else {
			checks.Add(Key, text)
		}
	}
	if s.Site == perSpan {
		s.Site = SectionEnd
	}
	return &s, rest, checks.Err()
}

// Enabled reports whether any statement is rewarded.
func (s *StateReward) Enabled() bool {
	return s != nil && (s.On == nil || *s.On) && (s.Estimation.Enable || s.Transition.Enable)
}

// Problems returns all errors of the block.
func (s *StateReward) Problems() []error {
	var c field.Checks
	settings.Check(&c, s)
	if !(s.Base >= 0 && s.Base < 1) {
		c.Say("{score_base} is %v, must be in [0, 1)", s.Base)
	}
	if s.Scoring == HalfAgreements && s.Phrases != DefaultStateReward().Phrases {
		c.Say("stock_phrases is for scoring %s, found %s", ExactMatches, s.Scoring)
	}
	if p := s.Phrases; p.Keep < 1 || p.Top < 0 || p.Top > p.Keep || !(p.Enough >= 0) || !(p.Penalty >= 0) ||
		math.IsInf(p.Enough+p.Penalty, 0) {
		c.Say("stock_phrases is %+v; keep must be positive, top within 0..keep, enough and penalty finite and not negative",
			p)
	}
	s.Service.check(&c)
	if s.Scorer != ByModel || !s.Enabled() {
		return c.Errors()
	}
	if s.Service.Model != "" {
		if s.JudgeURL != "" || s.JudgeModel != "" {
			c.Say("{judge.model} is %q, a model of this process, but judge_base_url or judge_model is set: leave them out, or judge.model", s.Service.Model)
		}
		return c.Errors()
	}
	switch u, err := url.Parse(s.JudgeURL); {
	case strings.ContainsAny(s.JudgeURL, "@?#"):
		c.Say("judge_base_url has a user, a password, a query or a fragment, must be of the form http://host:port/v1; name the variable with the key in judge.key_env")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		c.Say("judge_base_url is %q, must be of the form http://host:port/v1", s.JudgeURL)
	}
	if s.JudgeModel == "" {
		c.Say("judge_model is missing; the judge needs it, or a folder in judge.model")
	}
	return c.Errors()
}

// Apply returns an environment's options with those that the block sets: rewards for
// claims in the enabled sections. It is an error if the options set these already.
func (s *StateReward) Apply(options map[string]any) (map[string]any, error) {
	out := maps.Clone(options)
	if out == nil {
		out = make(map[string]any)
	}
	for _, name := range []string{optionUse, optionEstimation, optionTransition} {
		if _, given := out[name]; given {
			return nil, fmt.Errorf("%s and %s are both given; only one of them is allowed", Key, name)
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

// Tree returns the block as a configuration file has it.
func (s *StateReward) Tree() map[string]any { return settings.Tree(s) }

// Identity describes what the block's scores depend on: all of it but the limits of its service. It
// is "" for nil.
func (s *StateReward) Identity() string {
	if s == nil {
		return ""
	}
	tree := s.Tree()
	tree["judge"] = s.Service.Model
	return fmt.Sprint(tree)
}

// NewScoring returns how the block scores what its judge read.
func (s *StateReward) NewScoring() Scoring {
	return Scoring{Base: s.Base, Scorers: s.Scorers(), Guarded: s.Guard == GuardOn || s.Guard == GuardAuto &&
		s.Scorer == ByRules}
}

// Rules returns the judge of scorers ByRules and ByExactRules; nil for ByModel.
func (s *StateReward) Rules() *Rules {
	if s.Scorer == ByModel {
		return nil
	}
	return &Rules{Scoring: s.NewScoring(), Literal: s.Scorer == ByExactRules}
}

// Reference lists the keys of the block with their defaults and meanings.
func Reference() [][3]string { return reference("", reflect.ValueOf(DefaultStateReward())) }

// reference lists the keys of a struct. One with a text of its own is one key.
func reference(prefix string, v reflect.Value) (rows [][3]string) {
	for name, f := range field.Named(v.Type(), "yaml") {
		value, doc := reflect.Indirect(v.FieldByIndex(f.Index)), f.Tag.Get("doc")
		text := ""
		switch {
		case value.Kind() == reflect.Struct && doc == "":
			rows = append(rows, reference(prefix+name+".", value)...)
			continue
		case value.Kind() == reflect.Struct:
			for _, r := range reference("", value) {
				text += ", " + r[0] + ": " + r[1]
			}
			text = "{" + text[2:] + "}"
		case value.IsValid():
			text = fmt.Sprint(value)
		}
		rows = append(rows, [3]string{prefix + name, text, doc})
	}
	return rows
}
