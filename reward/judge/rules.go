package judge

import (
	"context"
	"fmt"
	"math"
	"sync"

	"vagen/reward"
	"vagen/reward/judge/internal/read"
)

// Rules judges by fixed rules. It reads relations from a claim in one of these forms:
//
//   - a JSON list of relations, or a dictionary of the positions of player and
//     objects, as in the structured formats
//   - a map of a board, as in the symbolic formats: one line for each row, the symbols with or without
//     white space or bars between them, or a list of lists or of strings in JSON
//   - English sentences; see the package comment for what they assert
//
// Claims about states without directions are compared by the numbers in them. A blank
// claim, and one about a state without objects, has no score: NaN.
//
// The zero value is ready.
type Rules struct {
	Scoring
	// Literal reads sentences as VAGEN next does: it finds each mention of an object, with or without a number
	// after it, and in the text up to the next mention the words above, below, same row, left, right and same
	// column; a direction that is stated in two ways is none. It also scores blank
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
	// Guarded restricts what a claim earns without knowledge of the present state. The
	// original systems pay for all three.
	//
	//   - The score is 0 if the claim's turn left the state as it was, so that standing still
	//     earns nothing.
	//   - The score is at most the claim's lead: by how much it fits the truth better than
	//     the truth of one turn earlier, as a share of the lead of the truth itself. So copies
	//     of the state before earn nothing, nor does any claim where the two truths are equal.
	//     Claims without an earlier truth have no such limit.
	//   - AssignmentScorer.Excess is set where there is no entry in Scorers.
	Guarded bool

	mu sync.Mutex // protects the state of scorers
}

// Score implements env.Judge. It never fails.
func (r *Rules) Score(_ context.Context, claims []reward.Claim) ([]float64, error) {
	scores := r.score(r.readAll(claims))
	for i, c := range claims {
		switch {
		case r.Literal && (len(c.Truth) > 0 || c.State == ""):
		case read.Blank(c.Text) || len(c.Truth) == 0 && c.State == "":
			scores[i] = math.NaN()
		case len(c.Truth) == 0:
			scores[i] = r.aboveNumbers(read.Firm(c.Text), &c)
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
	from := read.Relations
	if r.Literal {
		from = read.Literal
	}
	readings := make([]reward.Reading, len(claims))
	for i, c := range claims {
		readings[i] = reward.Reading{Claim: c, Relations: from(c), OK: true}
	}
	return readings
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
		scorer := p.scorer(group)
		found := scorer.Score(group)
		for k := range group {
			score := math.NaN()
			if len(found) == len(group) { // a scorer of the caller may return fewer or more
				score = found[k]
			}
			// Penalties are not scaled.
			if score > 0 {
				score = p.above(score, &group[k], scorer)
			}
			scores[at[k]] = score
		}
	}
	return scores
}

// guard sets the scores of turns without a change, or after one, to 0 if Guarded is set.
func (p *Scoring) guard(claims []reward.Claim, scores []float64) {
	for i, c := range claims {
		if p.Guarded && (c.Unchanged || c.State != "" && c.State == c.EarlierState) && scores[i] > 0 {
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
