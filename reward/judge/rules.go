package judge

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"vagen/reward"
)

// Rules judges by fixed rules. It reads relations from a claim in one of these forms:
//
//   - a JSON list of relations, or a dictionary of the positions of player and
//     objects, as in the structured formats
//   - a map of a board, as in the symbolic formats; see Board
//   - English sentences; see the package comment for what they assert
//
// Claims about states without directions are compared by the numbers in them. A blank
// claim, and one about a state without objects, has no score: NaN.
//
// The zero value is ready.
type Rules struct {
	Scoring
	// Literal reads sentences as VAGEN next does, see Read, and scores blank
	// claims and states without objects: it is the scorer "exact" of its configurations.
	Literal bool
}

// Scoring converts the relations that a judge read to scores.
type Scoring struct {
	// Scorers holds the scorer for the claims of each environment. Without an entry,
	// FrozenLake uses reward.FrozenLakeScorer, and other environments use a
	// reward.AssignmentScorer with the same weight for every kind of object. With a
	// stateful scorer, such as reward.RepetitionScorer, scores depend on the order in
	// which environments step.
	Scorers map[string]reward.Scorer
	// Base is the score of guessing: scores become (score − Base)/(1 − Base), but
	// not below 0. 0 changes nothing; 0.334 is the score of a random relation.
	Base float64
	// Guarded makes the score of a claim 0 if its turn left the state as it was, so that
	// standing still earns nothing, and sets AssignmentScorer.Excess where there is no entry
	// in Scorers. The original systems pay for both.
	Guarded bool

	mu sync.Mutex // protects the state of scorers
}

// Score implements env.Judge. It never fails.
func (r *Rules) Score(_ context.Context, claims []reward.Claim) ([]float64, error) {
	scores := r.score(r.readAll(claims))
	for i, c := range claims {
		switch {
		case r.Literal && (len(c.Truth) > 0 || c.State == ""):
		case strings.TrimFunc(c.Text, pythonSpace) == "" || len(c.Truth) == 0 && c.State == "":
			scores[i] = math.NaN()
		case len(c.Truth) == 0:
			scores[i] = reward.AboveBase(compareNumbers(c.Text, c.State), r.Base)
		}
	}
	r.guard(claims, scores)
	return scores, nil
}

// Read implements Reader. It never fails.
func (r *Rules) Read(_ context.Context, claims []reward.Claim) ([]reward.Reading, error) {
	return r.readAll(claims), nil
}

func (r *Rules) readAll(claims []reward.Claim) []reward.Reading {
	read := relations
	if r.Literal {
		read = literalRelations
	}
	readings := make([]reward.Reading, len(claims))
	for i, c := range claims {
		readings[i] = reward.Reading{Claim: c, Relations: read(c), OK: true}
	}
	return readings
}

// relations returns the relations that a claim states.
func relations(c reward.Claim) []reward.Relation {
	names := named(&c)
	text := visible(c.Text)
	if list, ok := structured(text, names); ok {
		return list
	}
	if list, ok := Board(text, c.Env); ok {
		return list
	}
	if c.Env == "navigation" {
		return read(text, names, directions)
	}
	return readSentences(text, names, c.Truth)
}

// literalRelations returns the relations that Read finds, for claims in words.
func literalRelations(c reward.Claim) []reward.Relation {
	names := map[string]string{"target": "target"}
	switch c.Env {
	case "frozenlake":
		names["goal"], names["hole"] = "target", "hole"
	case "sokoban":
		names["box"] = "box"
	}
	for _, t := range c.Truth {
		names[strings.ToLower(t.Object)] = t.Object
	}
	if list, ok := structured(c.Text, names); ok {
		return list
	}
	if list, ok := Board(c.Text, c.Env); ok {
		return list
	}
	if c.Env == "navigation" {
		return read(c.Text, names, directions)
	}
	return read(c.Text, names, positions)
}

// structured reads a claim in JSON or as a Python literal: a list of relations or a
// dictionary, alone or within other text. Two of them that differ state nothing.
func structured(text string, names map[string]string) ([]reward.Relation, bool) {
	if strings.IndexByte(text, '[') < 0 && strings.IndexByte(text, '{') < 0 {
		return nil, false
	}
	if list, ok := places(text, names); ok {
		return list, true
	}
	if list, ok := relationList(text, names); ok {
		return list, true
	}
	list, ok := reward.ExtractRelations(text)
	list = about(list, names)
	if !ok {
		return nil, false
	}
	for rest := text; ; {
		i := strings.LastIndexByte(rest, '[')
		if i < 0 {
			return list, true
		}
		if other, ok := reward.ExtractRelations(rest[i:]); ok {
			if other = about(other, names); len(other) > 0 && !slices.Equal(other, list) {
				return []reward.Relation{}, true
			}
		}
		rest = rest[:i]
	}
}

// vertical reads the value of a vertical relation: one of the usual three words, or
// another word for one of them such as south; "" for any other.
func vertical(s string) string {
	if s == reward.Above || s == reward.Below || s == reward.Same || s == "" {
		return s
	}
	l := lexicon[strings.ToLower(strings.TrimSpace(s))]
	if l.class == direction {
		return verticals[l.a&0xf]
	}
	if l.class == same {
		return reward.Same
	}
	return ""
}

// horizontal is vertical for the other direction.
func horizontal(s string) string {
	if s == reward.Left || s == reward.Right || s == reward.Same || s == "" {
		return s
	}
	l := lexicon[strings.ToLower(strings.TrimSpace(s))]
	if l.class == direction {
		return horizontals[l.b]
	}
	if l.class == same {
		return reward.Same
	}
	return ""
}

// about keeps the relations of known objects.
func about(list []reward.Relation, names map[string]string) []reward.Relation {
	out := make([]reward.Relation, 0, len(list))
	for _, r := range list {
		if id, ok := names[strings.ToLower(r.Object)]; ok {
			r.Object, r.Vertical, r.Horizontal = id, vertical(r.Vertical), horizontal(r.Horizontal)
			out = append(out, r)
		}
	}
	return out
}

// named maps the words for a claim's objects, in lower case, to their ids.
func named(c *reward.Claim) map[string]string {
	words := objectWords[c.Env]
	if !slices.ContainsFunc(c.Truth, func(t reward.Relation) bool { return words[t.Object] != t.Object }) {
		return words
	}
	names := make(map[string]string, len(c.Truth)+len(words))
	for _, t := range c.Truth {
		names[strings.ToLower(t.Object)] = t.Object
	}
	maps.Copy(names, words)
	return names
}

// score scores readings environment by environment, each in order.
func (p *Scoring) score(readings []reward.Reading) []float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	scores := make([]float64, len(readings))
	done := make([]bool, len(readings))
	for i := range readings {
		if done[i] {
			continue
		}
		var group []reward.Reading
		var at []int
		for k := i; k < len(readings); k++ {
			if readings[k].Claim.Env == readings[i].Claim.Env {
				group, at, done[k] = append(group, readings[k]), append(at, k), true
			}
		}
		for k, score := range p.scorer(group).Score(group) {
			// Penalties are not scaled.
			if score > 0 {
				score = reward.AboveBase(score, p.Base)
			}
			scores[at[k]] = score
		}
	}
	return scores
}

// guard sets the scores of turns without a change to 0 if Guarded is set.
func (p *Scoring) guard(claims []reward.Claim, scores []float64) {
	for i, c := range claims {
		if p.Guarded && c.Unchanged && scores[i] > 0 {
			scores[i] = 0
		}
	}
}

// frozenLake keeps no state, so that all judges share it; guardedLake is that of Guarded.
var (
	frozenLake  = reward.FrozenLakeScorer()
	guardedLake = &reward.AssignmentScorer{Weights: frozenLake.Weights, Excess: true}
)

func (p *Scoring) scorer(group []reward.Reading) reward.Scorer {
	name := group[0].Claim.Env
	if s := p.Scorers[name]; s != nil {
		return s
	}
	switch {
	case name == "frozenlake" && p.Guarded:
		return guardedLake
	case name == "frozenlake":
		return frozenLake
	}
	weights := make(map[string]float64)
	for _, r := range group {
		for _, t := range r.Claim.Truth {
			weights[t.Object] = 1
		}
	}
	return &reward.AssignmentScorer{Weights: weights, Excess: p.Guarded}
}

// Validate returns an error if a setting is not allowed.
func (p *Scoring) Validate() error {
	if !(p.Base >= 0 && p.Base < 1) {
		return fmt.Errorf("judge: score_base is %v, must be at least 0 and below 1", p.Base)
	}
	return nil
}
