package judge

import (
	"context"
	"fmt"
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
//   - any other text, sentence by sentence; see Read
//
// Claims about states without directions are compared by the numbers in them.
//
// The zero value is ready.
type Rules struct{ Scoring }

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

	mu sync.Mutex // protects the state of scorers
}

// Score implements env.Judge. It never fails.
func (r *Rules) Score(_ context.Context, claims []reward.Claim) ([]float64, error) {
	readings := make([]reward.Reading, len(claims))
	for i, c := range claims {
		readings[i] = reward.Reading{Claim: c, Relations: relations(c), OK: true}
	}
	scores := r.score(readings)
	for i, c := range claims {
		if len(c.Truth) == 0 && c.State != "" {
			scores[i] = reward.AboveBase(compareNumbers(c.Text, c.State), r.Base)
		}
	}
	return scores, nil
}

// relations returns the relations that a claim states.
func relations(c reward.Claim) []reward.Relation {
	names := named(c)
	if list, ok := places(c.Text, names); ok {
		return list
	}
	list, ok := reward.ExtractRelations(c.Text)
	if !ok || !slices.ContainsFunc(list, func(r reward.Relation) bool { return r.Object != "" }) {
		if other, found := relationList(c.Text, names); found {
			return other
		}
	}
	if ok {
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

// named maps the words for a claim's objects, in lower case, to their ids.
func named(c reward.Claim) map[string]string {
	names := make(map[string]string, len(c.Truth)+3)
	for _, t := range c.Truth {
		names[strings.ToLower(t.Object)] = t.Object
	}
	switch c.Env {
	case "frozenlake":
		names["goal"], names["target"], names["hole"] = "target", "target", "hole"
	case "sokoban":
		names["target"], names["box"] = "target", "box"
	}
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

func (p *Scoring) scorer(group []reward.Reading) reward.Scorer {
	name := group[0].Claim.Env
	if s := p.Scorers[name]; s != nil {
		return s
	}
	if name == "frozenlake" {
		return reward.FrozenLakeScorer()
	}
	weights := make(map[string]float64)
	for _, r := range group {
		for _, t := range r.Claim.Truth {
			weights[t.Object] = 1
		}
	}
	return &reward.AssignmentScorer{Weights: weights}
}

// Validate returns an error if a setting is not allowed.
func (p *Scoring) Validate() error {
	if !(p.Base >= 0 && p.Base < 1) {
		return fmt.Errorf("judge: the base is %v, it must be at least 0 and below 1", p.Base)
	}
	return nil
}
